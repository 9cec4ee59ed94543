use super::*;
use crate::pods::{DeletedPod, Listed};
use evictd_kernel::cgroup::Hierarchies;
use evictd_pod::wire;
use evictd_testkit::testing::logged;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::{fs, path::PathBuf, time::Duration};

struct Bench {
    top: tempfile::TempDir,
    sender: watch::Sender<Arc<Listing>>,
    cache: PodCache,
}

impl Bench {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let (cgroup, proc) = (top.path().join("cgroup"), top.path().join("proc"));
        fs::create_dir_all(cgroup.join("memory/kubepods")).unwrap();
        fs::create_dir_all(proc.join("self")).unwrap();
        fs::write(proc.join("self/cgroup"), "4:memory:/system\n").unwrap();
        let sender = watch::Sender::default();
        let binder = Binder::new(
            Hierarchies::detect(&cgroup).unwrap(),
            proc,
            vec!["kubepods".into()],
        );
        let cache = PodCache::new(sender.subscribe(), binder);
        Self { top, sender, cache }
    }

    fn group(&self, uid: &str) -> PathBuf {
        self.top
            .path()
            .join("cgroup/memory/kubepods")
            .join(format!("pod{uid}"))
    }

    /// These processes run in the group of this pod.
    fn run(&self, uid: &str, processes: &str) {
        fs::create_dir_all(self.group(uid)).unwrap();
        fs::write(self.group(uid).join("cgroup.procs"), processes).unwrap();
    }

    fn list(&self, uids: &[&str]) {
        self.send(uids.iter().map(|uid| listed(uid, &json!({}))).collect());
    }

    fn send(&self, pods: Vec<Listed>) {
        let listing = Listing {
            pods,
            ..Listing::default()
        };
        self.sender.send_replace(Arc::new(listing));
    }
}

fn listed(uid: &str, annotations: &Value) -> Listed {
    let metadata = json!({"name": format!("pod-{uid}"), "uid": uid, "annotations": annotations});
    let pod: wire::Pod = serde_json::from_value(json!({ "metadata": metadata })).unwrap();
    Listed {
        pod: Arc::new(Pod::from_wire(pod)),
        manifest: None,
        wire: None,
        evicted: false,
        evicted_at: None,
    }
}

fn gate(open: bool) -> impl Fn(&Pod, &[&Pod]) -> Result<(), Rejection> {
    move |_, _| {
        open.then_some(()).ok_or_else(|| Rejection {
            reason: "Evicted".to_owned(),
            message: "The node had condition: [MemoryPressure]. ".to_owned(),
        })
    }
}

fn uids(set: &PodSet) -> Vec<&str> {
    set.pods.iter().map(|pod| pod.uid.as_str()).collect()
}

fn cgroups(set: &PodSet) -> Vec<Option<BoundCgroup>> {
    set.pods.iter().map(|pod| pod.cgroup.clone()).collect()
}

#[test]
fn an_empty_group_of_a_pod_that_just_left_is_no_unknown_pod() {
    let said = |processes: &str| {
        let mut bench = Bench::new();
        fs::create_dir(bench.group("1")).unwrap();
        fs::write(bench.group("1").join("cgroup.procs"), processes).unwrap();
        bench.list(&["1"]);
        bench.cache.snapshot(gate(true));
        bench.list(&[]);
        logged(|| {
            assert_eq!(bench.cache.snapshot(gate(true)).unknown.len(), 1);
            bench.cache.fresh_snapshot(gate(true));
        })
    };
    assert_eq!(said(""), "");
    let lines = said("7\n");
    assert!(
        lines.contains("unknown pod in cgroup kubepods/pod1"),
        "{lines}"
    );
    assert_eq!(lines.lines().count(), 1, "{lines}");
}

#[test]
fn a_look_at_nothing_new_is_the_same_set() {
    let mut bench = Bench::new();
    bench.list(&["1", "2"]);
    let first = bench.cache.snapshot(gate(true));
    assert_eq!(uids(&first), ["1", "2"]);
    assert!(Arc::ptr_eq(&first, &bench.cache.snapshot(gate(false))));
    assert!(Arc::ptr_eq(
        &first,
        &bench.cache.fresh_snapshot(gate(false))
    ));
    bench.list(&["2"]);
    let second = bench.cache.snapshot(gate(false));
    assert_eq!(uids(&second), ["2"]);
    assert_eq!(second.generation, first.generation + 1);
}

#[test]
fn new_and_removed_cgroups_are_seen_by_a_fresh_snapshot() {
    let mut bench = Bench::new();
    bench.list(&["1"]);
    assert_eq!(cgroups(&bench.cache.snapshot(gate(true))), [None]);
    fs::create_dir(bench.group("1")).unwrap();
    fs::create_dir(bench.group("stranger")).unwrap();
    assert_eq!(cgroups(&bench.cache.snapshot(gate(true))), [None]);
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(
        set.pods[0].cgroup.as_ref().unwrap().relative,
        PathBuf::from("kubepods/pod1")
    );
    assert_eq!(set.unknown[0].uid, "stranger");
    // The pods themselves are not copied for that.
    let again = bench.cache.snapshot(gate(true));
    assert!(Arc::ptr_eq(&set.pods[0].pod, &again.pods[0].pod));
    fs::remove_dir(bench.group("1")).unwrap();
    assert_eq!(cgroups(&bench.cache.fresh_snapshot(gate(true))), [None]);
}

#[test]
fn an_unlisted_pod_appears_once_its_limit_is_written() {
    let mut bench = Bench::new();
    let binder = Binder::new(
        Hierarchies::detect(&bench.top.path().join("cgroup")).unwrap(),
        bench.top.path().join("proc"),
        vec![PathBuf::from("kubepods")],
    );
    bench.cache = PodCache::new(bench.sender.subscribe(), binder).ranking_unknown(true);
    bench.list(&["1"]);
    let group = bench.group("a-guaranteed");
    fs::create_dir(&group).unwrap();
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(uids(&set), ["1"]);
    let limit = group.join("memory.limit_in_bytes");
    fs::write(&limit, "67108864").unwrap();
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(uids(&set), ["1", "a-guaranteed"]);
    assert!(Arc::ptr_eq(&set, &bench.cache.fresh_snapshot(gate(true))));
    fs::remove_file(&limit).unwrap();
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(uids(&set), ["1"]);
}

#[test]
fn s1_088_a_pod_that_is_not_admitted_waits_outside_and_an_admitted_one_stays() {
    let mut bench = Bench::new();
    bench.list(&["old"]);
    bench.cache.snapshot(gate(true));
    fs::create_dir(bench.group("new")).unwrap();
    bench.list(&["new", "old"]);
    let set = bench.cache.snapshot(gate(false));
    assert_eq!(uids(&set), ["old"]);
    assert_eq!(set.rejected[0].uid, "new");
    assert_eq!(set.rejected[0].rejection.reason, "Evicted");
    assert!(set.rejected[0].cgroup.is_some());
    // It is no stranger either.
    assert_eq!(set.unknown, []);
    assert!(Arc::ptr_eq(&set, &bench.cache.snapshot(gate(false))));
    let set = bench.cache.snapshot(gate(true));
    assert_eq!(uids(&set), ["new", "old"]);
    assert!(set.pods[0].cgroup.is_some());
    assert_eq!(set.rejected, []);
}

#[test]
fn a_pod_that_left_is_new_when_it_returns() {
    let mut bench = Bench::new();
    bench.list(&["1"]);
    bench.cache.snapshot(gate(true));
    bench.list(&[]);
    bench.cache.snapshot(gate(true));
    bench.list(&["1"]);
    assert_eq!(bench.cache.snapshot(gate(false)).rejected.len(), 1);
}

#[test]
fn a_look_at_the_cgroups_that_fails_unties_no_pod_and_says_so() {
    let mut bench = Bench::new();
    for uid in ["1", "2"] {
        fs::create_dir(bench.group(uid)).unwrap();
    }
    bench.list(&["1", "2"]);
    let bound =
        |set: &PodSet| -> Vec<bool> { set.pods.iter().map(|pod| pod.cgroup.is_some()).collect() };
    assert_eq!(bound(&bench.cache.snapshot(gate(true))), [true, true]);
    let own = bench.top.path().join("proc/self/cgroup");
    fs::rename(&own, own.with_extension("away")).unwrap();
    // Its pods may be listed anew meanwhile, one new and one in another place; and one ends.
    fs::create_dir(bench.group("0")).unwrap();
    fs::remove_dir(bench.group("2")).unwrap();
    bench.list(&["0", "1", "2"]);
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(bound(&set), [false, true, false]);
    assert!(set.warnings[0].to_string().contains("proc/self/cgroup"));
    assert!(!set.is_certain());
    fs::rename(own.with_extension("away"), &own).unwrap();
    let set = bench.cache.fresh_snapshot(gate(true));
    assert_eq!(bound(&set), [true, true, false]);
    assert_eq!(set.warnings, []);
}

#[test]
fn a_pod_that_is_no_longer_listed_counts_as_still_running_until_it_ends_or_is_listed() {
    let mut bench = Bench::new();
    for uid in ["hog", "other", "stranger"] {
        bench.run(uid, "7");
    }
    bench.list(&["hog", "other"]);
    let still_running = |set: &PodSet| -> Vec<(String, PathBuf, u64)> {
        let all = set.still_running.iter();
        all.map(|one| {
            (
                one.pod.uid.clone(),
                one.cgroup.relative.clone(),
                one.grace.as_secs(),
            )
        })
        .collect()
    };
    assert_eq!(still_running(&bench.cache.snapshot(gate(true))), []);
    let mut listing = (**bench.sender.borrow()).clone();
    let gone = listing.pods.remove(0).pod;
    listing.deleted.push(Arc::new(DeletedPod {
        pod: gone,
        at: Timestamp::UNIX_EPOCH,
        grace: Duration::from_secs(2),
    }));
    let again = bench.sender.send_replace(Arc::new(listing.clone()));
    let expected = [("hog".to_owned(), PathBuf::from("kubepods/podhog"), 2)];
    let set = bench.cache.snapshot(gate(true));
    assert_eq!(
        (still_running(&set), uids(&set)),
        (expected.to_vec(), vec!["other"])
    );
    // A pod that was never listed is as unknown as ever.
    let unknown = |set: &PodSet| {
        set.unknown
            .iter()
            .map(|one| one.uid.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(unknown(&set), ["hog", "stranger"]);
    assert!(Arc::ptr_eq(&set, &bench.cache.snapshot(gate(true))));
    bench.sender.send_replace(again);
    let set = bench.cache.snapshot(gate(true));
    assert_eq!((still_running(&set), uids(&set).len()), (vec![], 2));
    bench.sender.send_replace(Arc::new(listing));
    assert_eq!(still_running(&bench.cache.snapshot(gate(true))), expected);
    // It need not be looked for cgroups to see its end.
    bench.run("hog", "");
    assert_eq!(still_running(&bench.cache.snapshot(gate(true))), []);
}

#[test]
fn a_pod_that_is_said_to_have_ended_is_alive_while_it_runs() {
    let mut bench = Bench::new();
    bench.run("hog", "7");
    bench.run("done", "");
    let mut listed = ["hog", "done", "gone"].map(|uid| listed(uid, &json!({})));
    for one in &mut listed {
        Arc::make_mut(&mut one.pod).terminal = true;
    }
    bench.send(listed.into());
    let ended = |set: &PodSet| set.pods.iter().map(|pod| pod.terminal).collect::<Vec<_>>();
    assert_eq!(
        ended(&bench.cache.snapshot(gate(true))),
        [false, true, true]
    );
    bench.run("hog", "");
    bench.run("done", "8");
    assert_eq!(
        ended(&bench.cache.fresh_snapshot(gate(true))),
        [true, false, true]
    );
}

#[test]
fn a_mirror_pod_unbinds_no_pod_and_hides_none() {
    let mut bench = Bench::new();
    let mirror = |uid: &str, of: &str| listed(uid, &json!({ "kubernetes.io/config.mirror": of }));
    for uid in ["hog", "forger", "cafe", "beef"] {
        bench.run(uid, "7");
    }
    bench.send(vec![
        listed("hog", &json!({})),
        mirror("forger", "hog"),
        mirror("idle", "hog"),
        mirror("etcd", "cafe"),
        mirror("forger of beef", "beef"),
        mirror("of beef", "beef"),
    ]);
    let set = bench.cache.snapshot(gate(true));
    let seen: Vec<_> = set
        .pods
        .iter()
        .map(|pod| {
            let path = pod
                .cgroup
                .as_ref()
                .and_then(|cgroup| cgroup.relative.file_name()?.to_str());
            (pod.uid.as_str(), path, pod.is_mirror())
        })
        .collect();
    let expected = [
        ("hog", Some("podhog"), false),
        ("forger", Some("podforger"), false),
        ("idle", None, false),
        ("cafe", Some("podcafe"), true),
        // Whose image it is cannot be told; that pod is nobody's to choose.
        ("beef", None, true),
        ("beef", None, true),
    ];
    assert_eq!(seen, expected);
    // A forger that comes to run is itself from then on.
    bench.send(vec![mirror("late", "cafe")]);
    assert!(bench.cache.snapshot(gate(true)).pods[0].is_mirror());
    bench.run("late", "9");
    let set = bench.cache.fresh_snapshot(gate(false));
    assert_eq!((uids(&set), set.pods[0].critical), (vec!["late"], None));
    assert!(set.pods[0].cgroup.is_some());
}

#[tokio::test(start_paused = true)]
async fn waiting_ends_with_a_new_listing_and_never_with_a_lost_source() {
    let mut bench = Bench::new();
    bench.cache.snapshot(gate(true));
    let minute = std::time::Duration::from_mins(1);
    assert!(
        tokio::time::timeout(minute, bench.cache.changed())
            .await
            .is_err()
    );
    bench.list(&["1"]);
    bench.cache.changed().await;
    bench.cache.snapshot(gate(true));
    bench.sender = watch::Sender::default();
    assert!(
        tokio::time::timeout(minute, bench.cache.changed())
            .await
            .is_err()
    );
}
