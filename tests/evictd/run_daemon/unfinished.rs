//! What a daemon that was killed has left to be told and to be done.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names, wait};
use evictd_node::History;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;

/// A pod that holds 90 MiB of the node's 192 crosses it.
const LOW: &str = "110Mi";
const CALM: &str = "1Mi";
const HOG: &str = "--hold 2Mi --grow-to 90Mi --per-second 400Mi";

impl Cluster {
    fn hog(&self) -> Value {
        self.admin.get("pods", "shop/hog").unwrap()
    }

    fn phase(&self) -> String {
        self.hog()["status"]["phase"].as_str().unwrap().to_owned()
    }

    /// How many patches of a pod's status were carried out.
    pub(crate) fn patches(&self) -> usize {
        let log = self.api.log();
        let told = log.iter().filter(|entry| {
            entry.verb == "patch" && entry.path.contains("/pods/") && entry.status == 200
        });
        told.count()
    }

    /// Evicts `shop/hog` while the API server is away, and kills the daemon; the decision.
    pub(crate) fn evict_untold(&self) -> Value {
        let mut hog = self.pod("hog", HOG);
        let mut daemon = self.daemon(LOW);
        daemon.eventually_knows(&["hog"]);
        self.api.go_away();
        hog.grow();
        let decision = daemon.evicted(1).remove(0);
        assert_eq!(names(std::slice::from_ref(&decision)), ["shop/hog"]);
        assert_eq!(decision["publication"]["state"], "waiting");
        daemon.signal(Signal::SIGKILL);
        daemon.ended();
        decision
    }

    /// What was in memory is gone, as after a reboot.
    fn forget_intents(&self) {
        fs::remove_file(self.node.path("run/intents")).unwrap();
    }

    /// Writes a record into the history of a daemon that does not run, which has nothing else to go by.
    pub(crate) fn write_record(&self, record: &Value) {
        self.forget_intents();
        let mut history = History::open(&self.node.path("state"), 1 << 20).unwrap();
        history.append(record).unwrap();
    }
}

/// The only decision, once this holds of it.
pub(crate) fn decided(daemon: &Daemon, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut found = Value::Null;
    daemon.eventually(what, |daemon| {
        let mut history = daemon.history();
        found = history.pop().unwrap_or_default();
        assert!(history.is_empty(), "{history:#?}");
        holds(&found)
    });
    found
}

pub(crate) fn is_told(decision: &Value) -> bool {
    decision["publication"]["state"] == "published" && !decision["outcome"].is_null()
}

#[test]
fn a_notice_that_a_killed_daemon_owed_is_sent_once_by_the_next_with_the_original_record() {
    let Some(cluster) = Cluster::new("what_a_killed_daemon_has_not_told") else {
        return;
    };
    let decision = cluster.evict_untold();
    // Still away: what is owed is owed by the next one, too.
    let daemon = cluster.daemon(LOW);
    daemon.some_turns_pass();
    assert_eq!(daemon.history()[0]["publication"]["state"], "waiting");
    drop(daemon);
    let daemon = cluster.daemon(LOW);
    cluster.api.come_back();
    let told = decided(&daemon, "it is told", is_told);
    assert_eq!(told["outcome"], decision["outcome"]);
    assert_eq!(told["publication"], json!({ "state": "published" }));
    let hog = cluster.hog();
    assert_eq!(hog["status"]["phase"], "Failed");
    assert_eq!(hog["status"]["reason"], "Evicted");
    assert_eq!(hog["status"]["message"], decision["message"]);
    let annotations = &hog["metadata"]["annotations"];
    let record: Value =
        serde_json::from_str(annotations["evictd.dev/evicted"].as_str().unwrap()).unwrap();
    assert_eq!(record["decision"], decision["id"]);
    assert_eq!(record["time"], decision["time"]);
    assert_eq!(cluster.patches(), 1);
    drop(daemon);
    let daemon = cluster.daemon(LOW);
    daemon.some_turns_pass();
    assert_eq!((cluster.patches(), daemon.said("it is continued")), (1, 0));
}

#[test]
fn a_notice_that_was_sent_but_not_recorded_is_not_sent_twice() {
    let Some(cluster) = Cluster::new("what_was_told_but_not_recorded") else {
        return;
    };
    let decision = cluster.evict_untold();
    cluster.api.come_back();
    drop(decided(&cluster.daemon(LOW), "it is told", is_told));
    // The kubelet empties these where every container exits with 0.
    let emptied = json!({ "status": { "reason": null, "message": null } });
    cluster
        .admin
        .merge("pods/status", "shop/hog", emptied)
        .unwrap();
    cluster.write_record(&decision);
    let daemon = cluster.daemon(LOW);
    decided(&daemon, "it is seen", is_told);
    assert_eq!(cluster.patches(), 1);
    assert_eq!(cluster.hog()["status"]["reason"], Value::Null);
}

#[test]
fn a_pod_of_the_same_name_is_not_told_what_was_owed_to_the_one_before() {
    for replaced in [false, true] {
        let Some(cluster) = Cluster::new("a_pod_of_the_same_name_is_not_told") else {
            return;
        };
        cluster.evict_untold();
        cluster.delete("hog");
        if replaced {
            cluster.create("hog", &Value::Null);
        }
        cluster.api.come_back();
        let daemon = cluster.daemon(LOW);
        let decision = decided(&daemon, "it is recorded", |decision| {
            decision["publication"]["state"] == "recorded"
        });
        let why = decision["publication"]["why"].as_str().unwrap();
        if replaced {
            assert_eq!(why, "another pod has its name now");
            assert_eq!(cluster.phase(), "Running");
            assert_eq!(cluster.hog()["metadata"]["annotations"], Value::Null);
        } else {
            assert_eq!(why, "the pod is gone");
        }
    }
}

#[test]
fn a_record_torn_at_any_byte_costs_itself_and_no_other() {
    let Some(cluster) = Cluster::new("a_record_torn_at_any_byte") else {
        return;
    };
    cluster.evict_untold();
    cluster.api.come_back();
    let path = cluster.node.path("state/decisions.log");
    let whole = fs::read(&path).unwrap();
    let first = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    assert!(whole.len() > first, "the outcome is recorded, too");
    let alive = cluster.hog()["status"].clone();
    for (end, is_known) in [
        (0, false),
        (1, false),
        (first / 2, false),
        (first - 2, false),
        // A record without its newline is whole.
        (first - 1, true),
        (first, true),
        (first + 1, true),
        (first + 9, true),
        (usize::midpoint(first, whole.len()), true),
        (whole.len() - 2, true),
        (whole.len() - 1, true),
    ] {
        cluster.forget_intents();
        fs::write(&path, &whole[..end]).unwrap();
        let daemon = cluster.daemon(LOW);
        if is_known {
            decided(&daemon, "it is told", is_told);
            assert_eq!(cluster.phase(), "Failed", "{end}");
            let mut status = alive.clone();
            status["reason"] = Value::Null;
            status["message"] = Value::Null;
            let annotations = json!({ "evictd.dev/evicted": null });
            let before = json!({ "status": status, "metadata": { "annotations": annotations } });
            cluster
                .admin
                .merge("pods/status", "shop/hog", before)
                .unwrap();
        } else {
            daemon.some_turns_pass();
            assert_eq!(daemon.history(), Vec::<Value>::new(), "{end}");
            assert_eq!(cluster.phase(), "Running", "{end}");
        }
    }
}

const SOFT: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 100ms}
evictionMaxPodGracePeriod: 5";

#[test]
fn a_soft_victim_that_its_budget_let_go_is_seen_off_by_the_next_daemon() {
    let Some(cluster) = Cluster::new("a_soft_victim_that_its_budget_let_go") else {
        return;
    };
    let mut hog = cluster.pod("hog", HOG);
    let lines = format!("{}\n{SOFT}\nevict: {{method: eviction}}", cluster.lines());
    let start = || Daemon::start(&cluster.node, &[("memory.available", CALM)], &lines);
    let leaves = || cluster.hog()["metadata"]["deletionTimestamp"].clone();
    let daemon = start();
    daemon.eventually_knows(&["hog"]);
    hog.grow();
    daemon.eventually("it is let go", |_| leaves().is_string());
    drop(daemon);
    assert!(hog.lives());
    let daemon = start();
    let decision = decided(&daemon, "it is seen off", |decision| {
        !decision["outcome"].is_null()
    });
    let killed = decision["outcome"]["killedSeconds"].as_f64().unwrap();
    assert!((4.9..7.5).contains(&killed), "{decision:#}");
    assert_eq!(decision["publication"], Value::Null);
    assert!(!hog.lives());
    assert_eq!(cluster.patches(), 0);
}

#[test]
fn a_soft_victim_is_seen_off_by_the_next_daemon_at_the_end_of_the_grace_that_was_decided() {
    for away in [false, true] {
        let Some(cluster) = Cluster::new("a_soft_victim_is_seen_off") else {
            return;
        };
        let uid = cluster.create("hog", &Value::Null);
        let cgroup = format!("evictd-pod{}.slice", uid.replace('-', "_"));
        let mut hog = cluster
            .node
            .deaf_worker(&cgroup, "--hold 2Mi --grow-to 90Mi --per-second 400Mi");
        let lines = format!("{}\n{SOFT}", cluster.lines());
        let start = || Daemon::start(&cluster.node, &[("memory.available", CALM)], &lines);
        let daemon = start();
        daemon.eventually_knows(&["hog"]);
        if away {
            cluster.api.go_away();
        }
        hog.grow();
        daemon.eventually("it is decided", |daemon| {
            daemon.said("evicting shop/hog") == 1 && (away || cluster.phase() == "Failed")
        });
        // What has passed of the grace does not begin anew.
        daemon.seconds_pass(1);
        drop(daemon);
        assert!(hog.lives());
        let daemon = start();
        assert!(hog.lives());
        daemon.eventually("it is killed", |_| !hog.lives());
        if away {
            cluster.api.come_back();
        }
        let decision = decided(&daemon, "it is told", is_told);
        let outcome = &decision["outcome"];
        let killed = outcome["killedSeconds"].as_f64().unwrap();
        assert!((4.9..7.5).contains(&killed), "away: {away}, {outcome:#}");
        // One that the kubelet asks is asked by nobody else.
        let first = outcome["firstSignalSeconds"].as_f64().unwrap();
        assert_eq!(first < killed, away, "{outcome:#}");
        assert_eq!(cluster.phase(), "Failed");
        assert_eq!(cluster.patches(), 1);
    }
}

#[test]
fn a_pod_that_runs_is_ended_soon_after_the_decision_and_after_neither_a_reboot_nor_the_pressure() {
    let Some(cluster) = Cluster::new("a_pod_that_runs_is_ended_soon_after") else {
        return;
    };
    let decision = cluster.evict_untold();
    cluster.api.come_back();
    let uid = decision["uid"].as_str().unwrap();
    let begun = || {
        let mut begun = decision.clone();
        begun.as_object_mut().unwrap().remove("outcome");
        begun
    };
    let mut again = cluster.run(uid, "--hold 2Mi");
    // Long ago: it has nothing to do with the pod that runs now.
    for mut record in [decision.clone(), begun()] {
        record["time"] = json!("2026-01-01T00:00:00Z");
        cluster.write_record(&record);
        let daemon = cluster.daemon(CALM);
        let dropped = decided(&daemon, "it is dropped", |decision| {
            decision["publication"]["state"] == "not published" && !decision["outcome"].is_null()
        });
        let why = dropped["publication"]["why"].as_str().unwrap();
        assert!(why.contains("still runs after the pressure"), "{why}");
        assert!(again.lives());
        assert_eq!(cluster.patches(), 0);
    }
    // The machine was started anew: what was to be killed is dead, and only what is owed to the API server is left.
    let mut record = begun();
    record["bootId"] = json!("another");
    cluster.write_record(&record);
    let daemon = cluster.daemon(CALM);
    let told = decided(&daemon, "it is told", is_told);
    assert_eq!(told["outcome"]["method"], "already-gone");
    // How long it took nobody knows.
    assert_eq!(told["outcome"]["lastProcessGoneSeconds"], Value::Null);
    assert_eq!(told["outcome"]["reactionSeconds"], Value::Null);
    assert_eq!(daemon.count("evictd_reaction_seconds_count"), 0);
    assert_eq!(daemon.said("shop/hog is gone: "), 0);
    assert_eq!(
        daemon.said("shop/hog is gone; it ended at an unknown time"),
        1
    );
    drop(daemon);
    assert!(again.lives());
    assert_eq!(cluster.phase(), "Failed");
    // What runs was started after the decision, and nothing presses any more: it is let be.
    cluster.write_record(&begun());
    let told = decided(&cluster.daemon(CALM), "it is told", is_told);
    assert_eq!(told["outcome"]["method"], "already-gone");
    assert!(again.lives());
    // It was decided a moment ago, and perhaps not begun.
    let mut record = begun();
    record["time"] = json!(jiff::Timestamp::now());
    cluster.write_record(&record);
    let told = decided(&cluster.daemon(CALM), "it is told", is_told);
    assert!(wait(|| !again.lives()));
    assert!(told["outcome"]["killedSeconds"].is_number(), "{told:#}");
    assert_eq!(cluster.patches(), 1);
}

#[test]
fn a_stopped_daemon_leaves_undelivered_notices_to_the_next() {
    let Some(cluster) = Cluster::new("a_daemon_that_is_stopped_leaves") else {
        return;
    };
    let mut hog = cluster.pod("hog", HOG);
    let mut daemon = cluster.daemon(LOW);
    daemon.eventually_knows(&["hog"]);
    cluster.api.go_away();
    hog.grow();
    daemon.evicted(1);
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
    assert_eq!(
        daemon.said("the API server has not confirmed 1 evictions yet"),
        1
    );
    cluster.api.come_back();
    // A rehearsal tells nobody anything.
    let lines = format!("{}\ndryRun: true", cluster.lines());
    let rehearsal = Daemon::start(&cluster.node, &[("memory.available", CALM)], &lines);
    rehearsal.some_turns_pass();
    assert_eq!(cluster.phase(), "Running");
    drop(rehearsal);
    decided(&cluster.daemon(LOW), "it is told", is_told);
    assert_eq!(cluster.phase(), "Failed");
}
