//! The source against real directories and the kernel's own notifications.

use super::*;
use evictd_pod::Critical;
use std::{
    fs::{self, File},
    io::Write,
    os::unix::fs::symlink,
    path::Path,
};

fn manifest(name: &str, memory: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: {name}\nspec:\n  containers:\n  - name: c\n    resources:\n      \
         requests:\n        memory: {memory}\n"
    )
}

fn ordinary(path: &Path) -> ManifestDirectory {
    ManifestDirectory {
        path: path.to_owned(),
        static_pods: false,
    }
}

async fn start(directories: Vec<ManifestDirectory>) -> watch::Receiver<Arc<Listing>> {
    Manifests::new(directories, ManifestRules::default())
        .start()
        .await
}

/// `name=memory request` of every pod.
fn pods(listing: &Listing) -> Vec<String> {
    let pods = listing.pods.iter().map(|listed| &listed.pod);
    pods.map(|pod| format!("{}={}", pod.name, pod.memory_request))
        .collect()
}

fn warnings(listing: &Listing) -> Vec<String> {
    listing.warnings.iter().map(ToString::to_string).collect()
}

/// Waits until the pods are these and the warnings contain these words, one each.
async fn expect(listings: &mut watch::Receiver<Arc<Listing>>, wanted: &[&str], warned: &[&str]) {
    let good = |listing: &Arc<Listing>| {
        let warnings = warnings(listing);
        pods(listing) == wanted
            && warnings.len() == warned.len()
            && warnings
                .iter()
                .zip(warned)
                .all(|(said, words)| said.contains(words))
    };
    let seen = tokio::time::timeout(Duration::from_secs(10), listings.wait_for(good)).await;
    if seen.map(drop).is_err() {
        let listing = Arc::clone(&listings.borrow());
        panic!(
            "wanted {wanted:?} and {warned:?}, got {:?} and {:?}",
            pods(&listing),
            warnings(&listing)
        );
    }
}

#[tokio::test]
async fn files_are_added_replaced_and_deleted() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    fs::write(path("a.yaml"), manifest("a", "1Mi")).unwrap();
    let mut listings = start(vec![ordinary(directory.path())]).await;
    // The first listing is whole before anyone asks.
    assert_eq!(pods(&listings.borrow()), ["a=1Mi"]);

    fs::write(path("b.yaml"), manifest("b", "2Mi")).unwrap();
    expect(&mut listings, &["a=1Mi", "b=2Mi"], &[]).await;

    fs::write(path(".b.new"), manifest("b", "3Mi")).unwrap();
    fs::rename(path(".b.new"), path("b.yaml")).unwrap();
    expect(&mut listings, &["a=1Mi", "b=3Mi"], &[]).await;

    fs::rename(path("b.yaml"), path("c.yaml")).unwrap();
    fs::remove_file(path("a.yaml")).unwrap();
    expect(&mut listings, &["b=3Mi"], &[]).await;
    let listed = Arc::clone(&listings.borrow());
    assert_eq!(
        listed.pods[0].manifest.as_deref(),
        Some(path("c.yaml").as_path())
    );
}

#[tokio::test]
async fn a_half_written_file_is_read_again_and_a_spoilt_one_keeps_its_pod() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.yaml");
    fs::write(directory.path().join("good.yaml"), manifest("good", "1Mi")).unwrap();
    let mut listings = start(vec![ordinary(directory.path())]).await;

    let whole = manifest("a", "1Mi");
    let (first, second) = whole.split_at(40);
    let mut file = File::create(&path).unwrap();
    file.write_all(first.as_bytes()).unwrap();
    expect(&mut listings, &["good=1Mi"], &["a.yaml"]).await;
    file.write_all(second.as_bytes()).unwrap();
    drop(file);
    expect(&mut listings, &["a=1Mi", "good=1Mi"], &[]).await;

    let line_and_key = "a.yaml:10:17: a: spec.containers[0].resources.requests.memory: ";
    fs::write(&path, manifest("a", "much")).unwrap();
    expect(&mut listings, &["a=1Mi", "good=1Mi"], &[line_and_key]).await;
    assert!(warnings(&listings.borrow())[0].ends_with("its last good version stays in use"));
    fs::write(&path, "").unwrap();
    expect(&mut listings, &["a=1Mi", "good=1Mi"], &["empty"]).await;
    fs::write(&path, manifest("a", "2Mi")).unwrap();
    expect(&mut listings, &["a=2Mi", "good=1Mi"], &[]).await;
}

#[tokio::test]
async fn a_directory_that_vanishes_keeps_its_pods_until_it_is_back() {
    let top = tempfile::tempdir().unwrap();
    let directory = top.path().join("etc/manifests");
    let mut listings = start(vec![ordinary(&directory)]).await;
    let missing = "etc/manifests: cannot read the manifest directory";
    expect(&mut listings, &[], &[missing]).await;

    // It appears together with a directory above it.
    let staged = top.path().join("staged");
    fs::create_dir_all(staged.join("manifests")).unwrap();
    fs::write(staged.join("manifests/a.yaml"), manifest("a", "1Mi")).unwrap();
    fs::rename(&staged, top.path().join("etc")).unwrap();
    expect(&mut listings, &["a=1Mi"], &[]).await;
    fs::write(directory.join("b.yaml"), manifest("b", "1Mi")).unwrap();
    expect(&mut listings, &["a=1Mi", "b=1Mi"], &[]).await;

    fs::rename(&directory, top.path().join("away")).unwrap();
    expect(&mut listings, &["a=1Mi", "b=1Mi"], &[missing]).await;
    fs::rename(top.path().join("away"), &directory).unwrap();
    expect(&mut listings, &["a=1Mi", "b=1Mi"], &[]).await;

    // Deleting it deletes its files first: those are gone.
    fs::remove_dir_all(&directory).unwrap();
    expect(&mut listings, &[], &[missing]).await;
    fs::create_dir(&directory).unwrap();
    expect(&mut listings, &[], &[]).await;
    fs::write(directory.join("c.yaml"), manifest("c", "1Mi")).unwrap();
    expect(&mut listings, &["c=1Mi"], &[]).await;
}

#[tokio::test]
async fn files_that_are_no_manifests_are_ignored() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    for name in [
        ".hidden.yaml",
        "a.yaml~",
        ".a.yaml.swp",
        "#a.yaml#",
        "a.bak",
        "a.orig",
        "a.tmp",
    ] {
        fs::write(at(name), manifest("wrong", "1Mi")).unwrap();
    }
    fs::create_dir(at("below")).unwrap();
    fs::write(at("below/a.yaml"), manifest("wrong", "1Mi")).unwrap();
    nix::unistd::mkfifo(&at("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    symlink("nowhere", at("dangling")).unwrap();
    fs::write(at("a"), manifest("a", "1Mi")).unwrap();
    symlink("a", at("b")).unwrap();
    File::create(at("huge")).unwrap().set_len(17 << 20).unwrap();
    let listings = start(vec![ordinary(directory.path())]).await;
    let listing = Arc::clone(&listings.borrow());
    assert_eq!(pods(&listing), ["a=1Mi"]);
    let warnings = warnings(&listing);
    assert_eq!(warnings.len(), 2, "{warnings:?}");
    assert!(
        warnings[0].ends_with("huge: larger than 16 MiB")
            || warnings[1].ends_with("huge: larger than 16 MiB")
    );
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("pod default/a is already described by"))
    );
}

#[tokio::test]
async fn s1_046_the_static_directory_makes_static_pods_under_any_name() {
    let top = tempfile::tempdir().unwrap();
    let (real, link) = (top.path().join("real"), top.path().join("link"));
    fs::create_dir(&real).unwrap();
    symlink("real", &link).unwrap();
    fs::write(real.join("a.yaml"), manifest("a", "1Mi")).unwrap();
    let directories = vec![
        ordinary(&link),
        ManifestDirectory {
            path: real.clone(),
            static_pods: true,
        },
    ];
    let listings = start(directories).await;
    let listing = Arc::clone(&listings.borrow());
    assert_eq!(pods(&listing), ["a=1Mi"]);
    assert_eq!(listing.pods[0].pod.critical, Some(Critical::Static));
}

#[tokio::test(start_paused = true)]
async fn a_change_without_an_inotify_event_is_found_by_the_full_rescan() {
    let top = tempfile::tempdir().unwrap();
    let (one, other, link) = (
        top.path().join("one"),
        top.path().join("other"),
        top.path().join("link"),
    );
    for (directory, name) in [(&one, "a"), (&other, "b")] {
        fs::create_dir(directory).unwrap();
        fs::write(directory.join("pod"), manifest(name, "1Mi")).unwrap();
    }
    symlink("one", &link).unwrap();
    let mut listings = start(vec![ordinary(&link)]).await;
    assert_eq!(pods(&listings.borrow()), ["a=1Mi"]);
    symlink("other", top.path().join("new")).unwrap();
    fs::rename(top.path().join("new"), &link).unwrap();
    let waited = tokio::time::timeout(FULL_RESCAN * 2, listings.changed()).await;
    waited.unwrap().unwrap();
    assert_eq!(pods(&listings.borrow()), ["b=1Mi"]);
}

#[tokio::test]
async fn the_source_ends_with_its_last_reader() {
    let directory = tempfile::tempdir().unwrap();
    let listings = start(vec![ordinary(directory.path())]).await;
    let metrics = tokio::runtime::Handle::current().metrics();
    assert_eq!(metrics.num_alive_tasks(), 1);
    drop(listings);
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), ended)
        .await
        .unwrap();
}
