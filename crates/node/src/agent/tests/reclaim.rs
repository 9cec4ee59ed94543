//! What can be freed without evicting a pod goes first, and the loop never waits for it. The disk is a tmpfs, and what a
//! runtime would remove are files on it.

use super::bench::Bench;
use crate::{
    config::PodsSource,
    reclaim::{Answer, Runtime},
};
use evictd_eviction::{
    decision::Withheld,
    reclaim::{Container, Image, Inventory, Removal},
};
use evictd_testkit::testing::with_tmpfs;
use jiff::Timestamp;
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
            Ok(Inventory {
                images: state.images.clone(),
                containers: state.containers.clone(),
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
                state.late
            };
            tokio::spawn(async move {
                sleep(Duration::from_secs(late)).await;
                fs::remove_file(path).unwrap();
            });
            Ok(())
        })
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
fn evictd_disk_says_what_could_go_without_a_pod() {
    on_a_full_disk("what_could_go_without_a_pod", async |mut bench, _| {
        bench.start(&format!("evictionHard: {{nodefs.available: 1Ki}}\n{MODE}"));
        bench.pass(1.0).await;
        let found = bench.disk().await["reclaimable"].clone();
        let expected = serde_json::json!({"containers": 0, "images": 2, "imageBytes": 2 << 20});
        assert_eq!(found, expected);
        assert!(bench.told().is_empty());
    });
}

#[test]
fn users_15_no_pod_goes_while_what_was_removed_is_not_back_yet() {
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

#[test]
fn a_frozen_runtime_delays_pods_by_ten_seconds_and_memory_by_nothing() {
    on_a_full_disk("a_frozen_runtime", async |mut bench, fake| {
        fake.state().frozen = true;
        bench.pod("hog", 10);
        bench.start(&format!(
            "{LOW}\n{MODE}\nevictionSoft: {{memory.available: 200Mi}}\n\
             evictionSoftGracePeriod: {{memory.available: 1s}}"
        ));
        bench.pass(3.0).await;
        assert!(bench.told().is_empty());
        bench.grow("hog", 850);
        bench.pass(3.0).await;
        let hog = bench.at("evicts shop/hog");
        assert!(hog < 6.0, "the soft threshold on memory acts: {hog}");
        bench.pass(60.0).await;
        let given_up = bench.at("reclaims 0 images");
        assert!((10.0..10.5).contains(&given_up), "{given_up}");
        let pod = bench.at("evicts shop/bystander");
        assert!((10.0..13.0).contains(&pod), "{pod}");
        let reclaims = bench.reclaims();
        let why = "the container runtime did not answer within 10 s";
        assert_eq!(reclaims[0].problems, [why]);
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
        // Once a minute for the uses, and three lists a reclaim, of which there are at most four.
        assert!(fake.state().lists <= 14, "{}", fake.state().lists);
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
fn no_pod_goes_for_a_disk_until_the_runtimes_socket_is_there() {
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
