//! What can be freed without evicting a pod goes first, and the loop never waits for it. The disk is a tmpfs, and what a
//! runtime would remove are files on it.

use super::bench::Bench;
use crate::{
    config::PodsSource,
    reclaim::{Answer, Places, Runtime},
};
use evictd_decision::Withheld;
use evictd_reclaim::{Container, Image, Inventory, Removal, Size};
use evictd_testkit::testing::with_tmpfs;
use jiff::Timestamp;
use nix::mount::{MsFlags, mount};
use std::{
    fs,
    future::pending,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};
use tokio::time::sleep;

const MODE: &str = "imageGC: {mode: pressure}";
/// Less than is left of the disk of these tests with all images on it.
const LOW: &str = "evictionHard: {nodefs.available: 1500Ki}\nevictWithoutRelief: true";

#[derive(Default)]
struct State {
    images: Vec<Image>,
    containers: Vec<Container>,
    lists: u32,
    /// Never answers.
    frozen: bool,
    /// Cannot be reached.
    gone: bool,
    /// Removes nothing.
    refuses: bool,
    /// After how many seconds the bytes are back.
    late: u64,
    /// Where it says that it keeps its files.
    places: Option<Places>,
}

/// A container runtime in memory, whose images are files of 1 MiB.
struct Fake {
    disk: PathBuf,
    state: Mutex<State>,
}

impl Fake {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn add(&self, name: &str, last_used: i64) {
        fs::write(self.disk.join(name), vec![1; 1 << 20]).unwrap();
        self.state().images.push(Image {
            id: name.to_owned(),
            names: vec![format!("evictd.test/{name}:1")],
            bytes: 1 << 20,
            last_used: Timestamp::from_second(last_used).unwrap(),
            first_seen: Timestamp::UNIX_EPOCH,
            ..Image::default()
        });
    }

    fn has(&self, name: &str) -> bool {
        self.disk.join(name).exists()
    }
}

impl Runtime for Fake {
    fn list(&self) -> Answer<'_, Inventory> {
        Box::pin(async {
            let frozen = {
                let mut state = self.state();
                state.lists += 1;
                state.frozen
            };
            if frozen {
                pending::<()>().await;
            }
            let state = self.state();
            if state.gone {
                return Err("it cannot be reached".to_owned());
            }
            let count = i64::try_from(state.images.len()).unwrap();
            Ok(Inventory {
                images: state.images.clone(),
                containers: state.containers.clone(),
                images_on_disk: Some(Size {
                    bytes: count << 20,
                    inodes: Some(count),
                }),
                ..Inventory::default()
            })
        })
    }

    fn remove<'a>(&'a self, removal: &'a Removal) -> Answer<'a, ()> {
        let path = self.disk.join(removal.id());
        Box::pin(async move {
            let late = {
                let mut state = self.state();
                if state.refuses {
                    return Err("it is in use".to_owned());
                }
                state.images.retain(|image| image.id != removal.id());
                state.containers.retain(|one| one.id != removal.id());
                state.late
            };
            tokio::spawn(async move {
                sleep(Duration::from_secs(late)).await;
                let removed = fs::remove_file(&path);
                assert!(removed.is_ok() || !path.exists(), "{removed:?}");
            });
            Ok(())
        })
    }

    fn places(&self) -> Answer<'_, Option<Places>> {
        Box::pin(async { Ok(self.state().places.clone()) })
    }
}

/// A node whose disk has 1 MiB left, of which two images hold 2 MiB, and one pod.
fn on_a_full_disk<F: Future<Output = ()>>(
    name: &'static str,
    test: impl FnOnce(Bench, Arc<Fake>) -> F + Send + 'static,
) {
    let at = tempfile::tempdir().unwrap();
    with_tmpfs(name, at.path().to_owned(), 4096, move |disk: &Path| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        fs::write(disk.join("filler"), vec![1; 1 << 20]).unwrap();
        let fake = Arc::new(Fake {
            disk: disk.to_owned(),
            state: Mutex::default(),
        });
        fake.add("recent", 200);
        fake.add("old", 100);
        runtime.block_on(async {
            let mut bench = Bench::new();
            bench.pod("bystander", 10);
            bench.nodefs = Some(disk.to_owned());
            bench.runtime = Some(Arc::clone(&fake) as Arc<dyn Runtime>);
            test(bench, fake).await;
        });
    });
}

#[test]
fn users_14_the_oldest_image_goes_and_the_pod_is_spared_because_that_suffices() {
    on_a_full_disk("the_oldest_image_goes", async |mut bench, fake| {
        bench.start(&format!("{LOW}\n{MODE}"));
        bench.pass(30.0).await;
        assert_eq!(bench.told(), ["reclaims 1 images, enough"]);
        assert!(bench.lives("bystander"));
        assert!(fake.has("recent") && !fake.has("old"));
        let shown = bench.status()["lastReclaim"]["reclaimed"].clone();
        assert_eq!(
            (&shown["images"], &shown["imageBytes"]),
            (&1.into(), &(1 << 20).into())
        );
    });
}

#[test]
fn evictd_disk_shows_what_could_be_removed_without_an_eviction() {
    on_a_full_disk("what_could_go_without_a_pod", async |mut bench, _| {
        bench.start(&format!("evictionHard: {{nodefs.available: 1Ki}}\n{MODE}"));
        bench.pass(1.0).await;
        let found = bench.disk().await["reclaimable"].clone();
        let expected = serde_json::json!({
            "containers": 0, "containerBytes": 0, "images": 2, "imageBytes": 2 << 20,
            "imageBytesOnDisk": true, "ageSeconds": 1,
        });
        assert_eq!(found, expected);
        assert!(bench.told().is_empty());
    });
}

#[test]
fn users_15_no_pod_is_evicted_until_the_removed_bytes_are_back() {
    on_a_full_disk(
        "what_was_removed_is_not_back_yet",
        async |mut bench, fake| {
            fake.state().images.retain(|image| image.id == "old");
            fake.state().late = 5;
            bench.start(&format!("{LOW}\n{MODE}"));
            bench.pass(30.0).await;
            assert_eq!(bench.told(), ["reclaims 1 images, enough"]);
            assert!(bench.lives("bystander"));
        },
    );
}

/// After how many seconds the bystander is evicted.
fn bystander_goes(bench: &Bench) -> f64 {
    bench.at("evicts shop/bystander")
}

#[test]
fn a_runtime_that_never_answered_delays_pods_by_two_seconds() {
    on_a_full_disk("a_runtime_that_never_answered", async |mut bench, fake| {
        fake.state().frozen = true;
        bench.start(&format!("{LOW}\n{MODE}"));
        bench.pass(12.0).await;
        let pod = bystander_goes(&bench);
        assert!((2.0..3.5).contains(&pod), "{pod}");
        let given_up = bench.at("reclaims 0 images");
        assert!((10.0..10.5).contains(&given_up), "{given_up}");
        let reclaims = bench.reclaims();
        let why = "the container runtime did not answer within 10 s";
        assert_eq!(reclaims[0].problems, [why]);
    });
}

#[test]
fn a_runtime_that_freezes_over_enough_images_delays_pods_by_ten_seconds_and_memory_by_nothing() {
    on_a_full_disk("a_runtime_that_freezes", async |mut bench, fake| {
        let soft = "evictionSoft: {memory.available: 200Mi}\n\
                    evictionSoftGracePeriod: {memory.available: 1s}";
        bench.pod("hog", 10);
        bench.start(&format!(
            "evictionHard: {{nodefs.available: 1Ki}}\n{MODE}\n{soft}"
        ));
        bench.pass(1.0).await;
        fake.state().frozen = true;
        bench.reload(&format!("{LOW}\n{MODE}\n{soft}")).await;
        bench.pass(2.0).await;
        assert!(bench.told().is_empty(), "{:?}", bench.log());
        bench.grow("hog", 850);
        bench.pass(3.0).await;
        let hog = bench.at("evicts shop/hog");
        assert!(
            hog < 6.0,
            "the soft threshold on memory acts: {:?}",
            bench.log()
        );
        bench.pass(60.0).await;
        let pod = bystander_goes(&bench);
        assert!((11.0..14.0).contains(&pod), "{:?}", bench.log());
    });
}

#[test]
fn image_after_image_goes_before_any_pod_however_soon_the_disk_is_low_again() {
    on_a_full_disk("image_after_image_goes", async |mut bench, fake| {
        bench.start(&format!("{LOW}\n{MODE}"));
        bench.pass(2.0).await;
        assert!(bench.lives("bystander") && fake.has("recent") && !fake.has("old"));
        fs::write(fake.disk.join("more"), vec![1; 1 << 20]).unwrap();
        bench.pass(2.0).await;
        assert!(bench.lives("bystander") && !fake.has("recent"));
        let twice = ["reclaims 1 images, enough", "reclaims 1 images, enough"];
        assert_eq!(bench.told(), twice);
        fs::write(fake.disk.join("yet more"), vec![1; 1 << 20]).unwrap();
        bench.pass(2.0).await;
        let pod = bystander_goes(&bench);
        assert!(
            (4.0..4.5).contains(&pod),
            "nothing is left to remove: {pod}"
        );
    });
}

fn dead_container(id: &str, bytes: Option<i64>) -> Container {
    Container {
        id: id.to_owned(),
        pod: "gone".to_owned(),
        exited: true,
        ended: Some(Timestamp::UNIX_EPOCH),
        layer: bytes.map(|bytes| Size {
            bytes,
            inodes: Some(1),
        }),
        ..Container::default()
    }
}

#[test]
fn a_dead_container_of_a_few_bytes_goes_beside_the_eviction_which_does_not_wait_for_it() {
    on_a_full_disk(
        "a_dead_container_of_a_few_bytes",
        async |mut bench, fake| {
            {
                let mut state = fake.state();
                state.images.clear();
                state.containers = vec![dead_container("small", Some(4096))];
            }
            bench.start("evictionHard: {nodefs.available: 1Ki}\nevictWithoutRelief: true\nimageGC: {mode: pressure}");
            bench.pass(1.0).await;
            let lines = format!("{LOW}\n{MODE}");
            bench.reload(&lines).await;
            bench.pass(3.0).await;
            let pod = bystander_goes(&bench);
            assert!(pod < 2.0, "it waits no two seconds: {pod}");
            assert!(
                fake.state().containers.is_empty(),
                "it is removed all the same"
            );
        },
    );
}

#[test]
fn a_dead_container_of_unknown_size_is_waited_for_shortly() {
    on_a_full_disk(
        "a_dead_container_of_unknown_size",
        async |mut bench, fake| {
            {
                let mut state = fake.state();
                state.images.clear();
                state.containers = vec![dead_container("unknown", None)];
            }
            bench.start(&format!("{LOW}\n{MODE}"));
            bench.pass(10.0).await;
            let pod = bystander_goes(&bench);
            assert!((2.0..3.0).contains(&pod), "{pod}");
        },
    );
}

#[test]
fn where_the_disk_is_full_before_the_bytes_are_back_the_pod_goes_and_the_images_too() {
    on_a_full_disk("full_before_the_bytes_are_back", async |mut bench, fake| {
        fake.state().late = 100;
        bench.start(&format!("{LOW}\n{MODE}"));
        // 1 MiB is left, for three seconds.
        for number in 0..60 {
            fs::write(fake.disk.join(number.to_string()), vec![1; 16 << 10]).unwrap();
            bench.pass(0.05).await;
        }
        bench.pass(1.0).await;
        let pod = bystander_goes(&bench);
        assert!((1.0..3.2).contains(&pod), "{pod}");
        assert!(fake.state().images.len() < 2, "the removal was begun");
    });
}

#[test]
fn images_of_another_filesystem_stay_and_the_pod_goes_at_once() {
    on_a_full_disk("images_of_another_filesystem", async |mut bench, fake| {
        fake.state().places = Some(Places {
            images: "/proc".into(),
            layers: "/proc".into(),
        });
        let disk = fake.disk.display();
        let configured =
            format!("filesystems: {{nodefs: {disk}, imagefs: {disk}, containerfs: {disk}}}");
        bench.start(&format!(
            "evictionHard: {{nodefs.available: 1Ki}}\n{configured}\n{MODE}"
        ));
        bench.pass(1.0).await;
        bench.reload(&format!("{LOW}\n{configured}\n{MODE}")).await;
        bench.pass(20.0).await;
        let pod = bystander_goes(&bench);
        assert!(pod < 2.0, "{pod}");
        assert!(fake.has("recent") && fake.has("old"));
        let warnings = bench.status()["warnings"].to_string();
        let told = "the container runtime keeps images in /proc (";
        assert!(warnings.contains(told), "{warnings}");
    });
}

#[test]
fn no_pod_is_evicted_for_a_read_only_disk_and_nothing_is_removed() {
    on_a_full_disk("a_disk_that_is_read_only", async |mut bench, fake| {
        let whole = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        let none = None::<&str>;
        mount(none, &fake.disk, none, whole, none).unwrap();
        bench.start(&format!("{LOW}\n{MODE}"));
        bench.pass(30.0).await;
        assert_eq!(bench.told(), ["evicts nobody"]);
        assert!(bench.lives("bystander") && fake.has("recent") && fake.has("old"));
        let why = bench.records()[0].withheld.clone();
        assert_eq!(why, Some(Withheld::ReadOnlyFilesystem));
        let warnings = bench.status()["warnings"].to_string();
        let told = "the filesystem of nodefs.available is read-only";
        assert!(warnings.contains(told), "{warnings}");
    });
}

#[test]
fn a_removal_that_fails_ends_in_an_eviction_and_is_not_tried_again_in_each_cycle() {
    on_a_full_disk("a_removal_that_fails", async |mut bench, fake| {
        fake.state().refuses = true;
        bench.start(&format!("{LOW}\n{MODE}"));
        bench.pass(60.0).await;
        assert!(!bench.lives("bystander"), "{:?}", bench.log());
        let first = &bench.reclaims()[0];
        assert_eq!((first.images, first.failed), (0, 2));
        assert!(
            first.problems[0].ends_with("old:1: it is in use"),
            "{first:?}"
        );
        // Every ten seconds while the disk is low, and three lists a reclaim, of which there are at most four. A busy machine
        // adds lists that came late and were asked for again. One reclaim a cycle would need 180.
        assert!(fake.state().lists <= 60, "{}", fake.state().lists);
        assert_eq!(bench.reclaims().len(), 1, "the same is told once");
    });
}

#[test]
fn a_dry_run_tells_what_would_go_and_removes_nothing() {
    on_a_full_disk("a_dry_run_tells_what_would_go", async |mut bench, fake| {
        let pinned = |image: &mut Image| image.pinned = image.id == "old";
        fake.state().images.iter_mut().for_each(pinned);
        bench.start(&format!("{LOW}\n{MODE}\ndryRun: true"));
        bench.pass(30.0).await;
        assert!(fake.has("recent") && fake.has("old"));
        let told = bench.reclaims();
        let would: Vec<&str> = told[0].would_remove.iter().map(Removal::id).collect();
        assert_eq!(would, ["recent"], "the other one is pinned");
        assert!(bench.lives("bystander"));
    });
}

#[test]
fn where_it_is_off_nothing_is_listed() {
    on_a_full_disk("where_it_is_off", async |mut bench, fake| {
        bench.start(LOW);
        bench.pass(10.0).await;
        assert_eq!(fake.state().lists, 0);
        assert!(!bench.lives("bystander"));
    });
}

#[test]
fn in_place_of_the_kubelet_images_go_from_the_high_threshold_to_the_low_one() {
    on_a_full_disk("in_place_of_the_kubelet", async |mut bench, fake| {
        bench.imagefs = true;
        // 75 % are in use; one image is 25 %.
        bench.start(
            "evictionHard: {nodefs.available: 0%, imagefs.available: 0%}\n\
             imageGC: {mode: full, highThresholdPercent: 70, lowThresholdPercent: 60}",
        );
        bench.pass(30.0).await;
        assert_eq!(bench.told(), ["reclaims 1 images, enough"]);
        assert!(fake.has("recent") && !fake.has("old"));
        fs::write(fake.disk.join("more"), vec![1; 1 << 20]).unwrap();
        bench.pass(200.0).await;
        assert!(fake.has("recent"), "it is looked every five minutes");
        bench.pass(100.0).await;
        assert!(!fake.has("recent"));
    });
}

#[test]
fn no_pod_is_evicted_for_a_disk_until_the_runtimes_socket_exists() {
    on_a_full_disk(
        "no_pod_goes_until_the_socket_is_there",
        async |mut bench, fake| {
            bench.source = PodsSource::Kubernetes;
            fake.state().gone = true;
            let socket = fake.disk.join("cri.sock");
            let endpoint = format!("containerRuntimeEndpoint: {}", socket.display());
            bench.start(&format!("{LOW}\n{endpoint}"));
            bench.pass(20.0).await;
            assert_eq!(bench.told(), ["reclaims 0 images", "evicts nobody"]);
            let why = bench.records()[0].withheld.clone();
            let named = format!("no container runtime is at {};", socket.display());
            let Some(Withheld::DiskEvictionsOff { reason }) = why else {
                panic!("{why:?}");
            };
            assert!(reason.contains(&named), "{reason}");
            fs::write(&socket, "").unwrap();
            fake.state().gone = false;
            bench.pass(30.0).await;
            assert_eq!(bench.told()[2..], ["reclaims 1 images, enough"]);
            assert!(bench.lives("bystander"));
        },
    );
}

#[test]
fn a_threshold_that_a_reload_brings_has_its_reclaim_too() {
    on_a_full_disk(
        "a_threshold_that_a_reload_brings",
        async |mut bench, fake| {
            let off = "evictionHard: {nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}";
            bench.start(&format!("{off}\n{MODE}"));
            bench.pass(120.0).await;
            assert_eq!(fake.state().lists, 0, "nothing needs it");
            bench.reload(&format!("{LOW}\n{MODE}")).await;
            bench.pass(30.0).await;
            assert_eq!(bench.told(), ["reclaims 1 images, enough"]);
        },
    );
}

#[tokio::test(start_paused = true)]
async fn page_cache_is_asked_for_only_while_a_soft_threshold_waits() {
    const COLD: &str = "memoryAvailable: workingSet\nreclaim: {memory: cold}";
    let soft =
        "evictionSoft: {memory.available: 300Mi}\nevictionSoftGracePeriod: {memory.available: 1m}";
    let hard = "evictionHard: {memory.available: 300Mi}";
    for (lines, asks) in [
        (format!("{soft}\n{COLD}"), true),
        (format!("{soft}\n{COLD}\ndryRun: true"), false),
        (format!("{soft}\nmemoryAvailable: workingSet"), false),
        (format!("{hard}\n{COLD}"), false),
    ] {
        let mut bench = Bench::new();
        bench.pod("cache", 0);
        bench.caches("cache", 750);
        bench.start(&lines);
        let asked = tokio::time::timeout(Duration::from_secs(30), async {
            while !bench.is_asked_for_cache("cache") {
                sleep(Duration::from_millis(100)).await;
                std::thread::yield_now();
            }
        });
        assert_eq!(asked.await.is_ok(), asks, "{lines}");
    }
}
