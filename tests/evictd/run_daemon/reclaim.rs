//! Node-level reclaim with a real containerd, on a filesystem of its own.

use crate::daemon::Daemon;
use crate::node::{Node, Traits};
use crate::run_daemon::disk::own_mounts;
use evictd_testkit::cri::Containerd;
use evictd_testkit::testing::left_out;
use nix::sys::statvfs::statvfs;
use serde_json::json;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

const MI: u64 = 1 << 20;
/// CRI's number for a container that has ended.
const EXITED: i32 = 2;

/// An ext4 filesystem of so many MiB in a file, mounted for this thread and what it starts.
pub(crate) fn ext4(test: &str, file: &Path, at: PathBuf, mebibytes: u64) -> Option<PathBuf> {
    fs::create_dir_all(&at).unwrap();
    File::create(file).unwrap().set_len(mebibytes * MI).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program)
            .args(arguments)
            .arg(file)
            .arg(&at)
            .output();
        let output = output.map_err(|error| format!("{program}: {error}"))?;
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(()).ok_or(words)
    };
    let made = Command::new("mkfs.ext4").arg("-q").arg(file).status();
    let made = made.map_err(|error| error.to_string()).and_then(|status| {
        status
            .success()
            .then_some(())
            .ok_or("mkfs.ext4 failed".to_owned())
    });
    match made.and_then(|()| run("mount", &["-o", "loop"])) {
        Ok(()) => Some(at),
        Err(why) => {
            left_out(test, why);
            None
        }
    }
}

pub(crate) fn available(at: &Path) -> u64 {
    let all = statvfs(at).unwrap();
    all.blocks_available() * all.fragment_size()
}

#[test]
fn users_14_a_dead_container_and_an_unused_image_go_and_the_pod_is_spared_because_that_suffices() {
    let name = "a_dead_container_and_an_unused_image_go";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let place = node.path("disk");
    let Some(disk) = ext4(name, &node.path("disk.ext4"), place, 400) else {
        return;
    };
    let Some(mut containerd) = Containerd::start_below(name, &disk) else {
        return;
    };
    if !containerd.is_own() {
        return;
    }
    containerd.image("evictd.test/app:1", 0).unwrap();
    containerd.image("evictd.test/unused:1", 30 << 20).unwrap();
    let web = containerd.pod("web").unwrap();
    let start = |instance, command: &[&str]| {
        containerd
            .container(&web, instance, "evictd.test/app:1", command)
            .unwrap()
    };
    let dead = ["dd", "if=/dev/zero", "of=/tmp/written", "bs=1M", "count=20"];
    let dead = start(("job", 0), &dead);
    let last = start(("job", 1), &["true"]);
    let runs = start(("main", 0), &["sleep", "1000"]);
    let has = |id: &String| {
        let all = containerd.containers().unwrap();
        all.into_iter().find(|one| one.id == *id)
    };
    assert!(crate::daemon::wait(|| {
        [&dead, &last]
            .into_iter()
            .all(|id| has(id).is_some_and(|one| one.state == EXITED))
    }));
    let mut bystander = node.pod("bystander", "--hold 8Mi", Traits::default());
    // With the container alone it is not enough.
    nix::unistd::sync();
    let low = (available(&disk) + 40 * MI).to_string();
    let shown = disk.display();
    let daemon = Daemon::start(
        &node,
        &[("nodefs.available", &low)],
        &format!(
            "filesystems: {{nodefs: {shown}, imagefs: {shown}, containerfs: {shown}}}\n\
             containerRuntimeEndpoint: unix://{}\n\
             evictWithoutRelief: true\n\
             imageGC: {{mode: pressure, minimumAge: 0s}}",
            containerd.socket().display()
        ),
    );
    daemon.eventually("the reclaim is over", |daemon| {
        daemon.said("reclaim for nodefs.available: removed") == 1
    });
    let record = &daemon.history()[0];
    assert_eq!(record["kind"], "reclaim");
    let done = &record["reclaimed"];
    assert_eq!(
        (&done["containers"], &done["images"], &done["relieved"]),
        (&json!(1), &json!(1), &json!(true)),
        "{record}"
    );
    // A busy runtime frees the container's layer when the image is removed already.
    let freed = ["containers", "images"]
        .map(|what| daemon.count(&format!("evictd_reclaimed_bytes_total{{what=\"{what}\"}}")));
    assert!(freed.iter().sum::<u64>() > 35 * MI, "{freed:?}");
    daemon.some_turns_pass();
    assert!(bystander.lives());
    assert_eq!(daemon.history().len(), 1);
    assert!(has(&dead).is_none() && has(&last).is_some() && has(&runs).is_some());
    // Neither the image of sandboxes nor one in use has gone.
    let again = containerd.pod("again").unwrap();
    let started = containerd.container(&again, ("main", 0), "evictd.test/app:1", &["true"]);
    started.unwrap();
    drop(daemon);
    drop(containerd);
}
