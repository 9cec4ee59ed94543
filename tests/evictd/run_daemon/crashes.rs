//! A daemon that is killed at any moment: nobody goes who need not, and whoever goes has a record.
//!
//! `EVICTD_CRASHES=200 cargo test --test evictd crashes` plays so many of them in all.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, Worker, requests};
use crate::run_daemon::disk::{fill_up, own_mounts, tmpfs};
use crate::run_daemon::unfinished::{decided, is_told};
use evictd_testkit::Fault;
use nix::poll::{PollTimeout, poll};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Below this a hog of 90 MiB on the node's 192 is one too many.
const LOW: &str = "110Mi";
const HOG: &str = "--hold 2Mi --grow-to 90Mi --per-second 400Mi";
const SOFT: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 100ms}
evictionMaxPodGracePeriod: 1";

/// How often each of the three suites kills a daemon.
fn rounds() -> u64 {
    let all = std::env::var("EVICTD_CRASHES").ok();
    all.and_then(|all| all.parse::<u64>().ok())
        .map_or(7, |all| all.div_ceil(3))
}

/// Moments that look random and differ from run to run.
struct Moments(u64);

impl Moments {
    fn new() -> Self {
        Self(
            evictd_kernel::clock::Clock::start()
                .now()
                .as_millisecond()
                .unsigned_abs()
                | 1,
        )
    }

    /// Below so many.
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % most
    }

    /// Lets the hog go, and kills the daemon: every other time so many milliseconds later at most, else in the instant
    /// in which the hog is seen to be gone.
    fn kill(&mut self, round: u64, hog: &mut Worker, daemon: &mut Daemon, most: u64) {
        hog.grow();
        if round.is_multiple_of(2) {
            pass(self.below(most));
        } else {
            (0..20_000).any(|_| {
                pass(1);
                !hog.lives()
            });
            pass(self.below(4));
        }
        daemon.signal(Signal::SIGKILL);
        daemon.ended();
    }
}

fn pass(milliseconds: u64) {
    let _ = poll(&mut [], PollTimeout::try_from(milliseconds).unwrap());
}

fn is_complete(record: &Value) -> bool {
    !record["outcome"].is_null() && record["publication"]["state"] != "waiting"
}

/// Waits until there is one record of this pod's, and nothing is missing in it.
fn recorded(daemon: &Daemon, uid: &str, round: u64) -> Value {
    let mut found = Vec::new();
    let what = format!("round {round}: {uid} has one record, which is complete");
    daemon.eventually(&what, |daemon| {
        found = daemon.history();
        found.retain(|record| record["uid"] == uid);
        assert!(found.len() < 2, "{what}: {found:#?}");
        found.iter().any(is_complete)
    });
    found.remove(0)
}

/// On a node without a cluster, with these lines in the configuration.
fn crash(test: &str, hard: &str, lines: &str, most: u64) {
    let Some(node) = Node::new(test) else { return };
    let mut innocents =
        ["calm", "modest"].map(|name| node.pod(name, "--hold 8Mi", requests("32Mi")));
    let start = || Daemon::start(&node, &[("memory.available", hard)], lines);
    let mut moments = Moments::new();
    let mut daemon = start();
    for round in 0..rounds() {
        let name = format!("hog-{round}");
        let uid = Traits {
            metadata: json!({ "uid": name }),
            ..Traits::default()
        };
        let mut hog = node.pod(&name, HOG, uid);
        daemon.eventually_knows(&["calm", &name, "modest"]);
        moments.kill(round, &mut hog, &mut daemon, most);
        daemon = start();
        daemon.eventually("the hog is gone", |_| !hog.lives());
        recorded(&daemon, &name, round);
        assert!(innocents.iter_mut().all(Worker::lives), "round {round}");
        fs::remove_file(node.path(&format!("manifests/{name}.yaml"))).unwrap();
        daemon.eventually_knows(&["calm", "modest"]);
    }
    let innocent = |name: &&str| !name.starts_with("shop/hog-");
    let history = daemon.history();
    assert_eq!(names(&history).into_iter().find(innocent), None);
}

#[test]
fn a_daemon_killed_at_any_moment_of_a_hard_eviction_loses_no_record_and_ends_nobody_else() {
    crash(
        "a_daemon_killed_at_any_moment_of_a_hard_eviction",
        LOW,
        "",
        500,
    );
}

#[test]
fn a_daemon_killed_at_any_moment_of_a_soft_eviction_loses_no_record_and_ends_nobody_else() {
    crash(
        "a_daemon_killed_at_any_moment_of_a_soft_eviction",
        "1Mi",
        SOFT,
        800,
    );
}

#[test]
fn a_daemon_killed_beside_a_slow_api_server_loses_no_record_and_tells_what_it_owes() {
    let Some(cluster) = Cluster::new("a_daemon_killed_beside_a_slow_api_server") else {
        return;
    };
    let mut innocents = ["calm", "modest"].map(|name| cluster.pod(name, "--hold 8Mi"));
    let mut moments = Moments::new();
    let mut daemon = cluster.daemon(LOW);
    for round in 0..rounds() {
        let name = format!("hog-{round}");
        let uid = cluster.create(&name, &Value::Null);
        let mut hog = cluster.run(&uid, HOG);
        daemon.eventually_knows(&["calm", &name, "modest"]);
        for verb in ["patch", "get"] {
            let by = Duration::from_millis(moments.below(300));
            cluster.api.fault(Fault::delay(by).on(verb, "*"));
        }
        moments.kill(round, &mut hog, &mut daemon, 500);
        cluster.api.clear_faults();
        daemon = cluster.daemon(LOW);
        daemon.eventually("the hog is gone", |_| !hog.lives());
        let record = recorded(&daemon, &uid, round);
        assert_eq!(record["publication"]["state"], "published", "round {round}");
        let pod = cluster.admin.get("pods", &format!("shop/{name}")).unwrap();
        assert_eq!(pod["status"]["reason"], "Evicted", "round {round}");
        assert!(innocents.iter_mut().all(Worker::lives), "round {round}");
        cluster.delete(&name);
        daemon.eventually_knows(&["calm", "modest"]);
    }
    let history = daemon.history();
    assert_eq!(history.len() as u64, rounds(), "{:?}", names(&history));
}

#[test]
fn a_kill_that_no_disk_has_on_record_is_on_record_after_the_next_start() {
    let name = "a_kill_that_no_disk_has_on_record";
    let Some(node) = Node::new(name) else { return };
    if !own_mounts(name) {
        return;
    }
    let state = node.path("state");
    tmpfs(&state, "size=64k");
    let filler = fill_up(&state, 64);
    let uid = Traits {
        metadata: json!({ "uid": "u-1" }),
        ..Traits::default()
    };
    let mut hog = node.pod("hog", HOG, uid);
    let start = || Daemon::start(&node, &[("memory.available", LOW)], "");
    let mut daemon = start();
    daemon.eventually_knows(&["hog"]);
    hog.grow();
    daemon.eventually("no disk has what became of the hog", |daemon| {
        daemon.status()["history"]["waiting"] == 2
    });
    assert!(!hog.lives());
    daemon.signal(Signal::SIGKILL);
    daemon.ended();
    fs::remove_file(&filler).unwrap();
    let daemon = start();
    let record = recorded(&daemon, "u-1", 0);
    // With everything that was known when it was killed.
    assert_eq!(
        record["outcome"]["method"]
            .as_str()
            .map(|method| method.ends_with("-kill")),
        Some(true)
    );
    assert_eq!(record["ranking"][0]["pod"], "shop/hog");
    drop(daemon);
    // It is not taken up twice.
    let daemon = start();
    daemon.some_turns_pass();
    assert_eq!(
        (daemon.history().len(), daemon.said("it is continued")),
        (1, 0)
    );
}

#[test]
fn without_a_place_in_memory_it_warns_once_and_evicts() {
    let Some(node) = Node::new("without_a_place_in_memory_it_warns_once") else {
        return;
    };
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let lines = format!("runtimeDirectory: {}/proc/nowhere", node.path("").display());
    fs::write(node.path("proc"), "a file").unwrap();
    let daemon = Daemon::start(&node, &[("memory.available", LOW)], &lines);
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(!hog.lives());
    assert_eq!(
        daemon.said("that eviction may be missing in the history"),
        1
    );
}

/// What another version has made of the record of a decision that it has begun to carry out.
type Version = fn(&mut Value);

#[test]
fn decisions_of_another_version_are_finished_once_without_loss() {
    let as_before: Version = |_| {};
    let older: Version = |record| {
        let keys = [
            "bootId",
            "wokenBy",
            "owner",
            "annotations",
            "disruptionTarget",
        ];
        let record = record.as_object_mut().unwrap();
        record.retain(|key, _| !keys.contains(&key.as_str()));
    };
    let newer: Version = |record| {
        record["threshold"]["signal"] = json!("gpu.available");
        record["resource"] = json!("gpus");
        record["ranking"][0]["qos"] = json!("Platinum");
        record["unheardOf"] = json!({ "a": ["b"] });
    };
    // Of what nobody knows to be of this time no process is ended.
    for (version, hold, ends) in [
        (as_before, "--hold 90Mi", true),
        (newer, "--hold 90Mi", true),
        (older, "--hold 2Mi", false),
    ] {
        let Some(cluster) = Cluster::new("what_another_version_has_begun") else {
            return;
        };
        let mut record = cluster.evict_untold();
        fs::remove_dir_all(cluster.node.path("state")).unwrap();
        record.as_object_mut().unwrap().remove("outcome");
        version(&mut record);
        cluster.write_record(&record);
        let mut hog = cluster.run(record["uid"].as_str().unwrap(), hold);
        cluster.api.come_back();
        let daemon = cluster.daemon(LOW);
        let told = decided(&daemon, "it is told", is_told);
        assert_eq!(told["id"], record["id"]);
        assert_eq!((hog.lives(), cluster.patches()), (!ends, 1), "{told:#}");
        hog.end();
        drop(daemon);
        let daemon = cluster.daemon(LOW);
        daemon.some_turns_pass();
        assert_eq!((cluster.patches(), daemon.said("it is continued")), (1, 0));
        decided(&daemon, "it is told", is_told);
    }
}
