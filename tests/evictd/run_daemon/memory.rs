//! Hard thresholds: memory and process ids.

use crate::daemon::{Daemon, message, names, seconds_between};
use crate::node::{Node, Traits, requests};
use serde_json::{Value, json};

const LOW: [(&str, &str); 1] = [("memory.available", "64Mi")];

#[test]
fn s1_023_s1_036_s1_043_s1_051_s1_052_s1_053_s1_058_a_hog_goes_and_everything_is_told_of_it() {
    let Some(node) = Node::new("a_hog_goes_and_everything_is_told_of_it") else {
        return;
    };
    let mut modest = node.pod("modest", "--hold 16Mi", requests("64Mi"));
    let mut hog = node.pod(
        "hog",
        "--hold 16Mi --grow-to 150Mi --per-second 100Mi",
        Traits::default(),
    );
    let daemon = Daemon::start(&node, &LOW, "evictionPressureTransitionPeriod: 2s");
    assert_eq!(daemon.condition("MemoryPressure")["raised"], false);
    hog.grow();
    let decisions = daemon.evicted(1);
    assert!(!hog.lives() && modest.lives());

    let decision = &decisions[0];
    assert_eq!(names(&decisions), ["shop/hog"]);
    for (key, expected) in [
        ("kind", json!("hard")),
        ("signal", json!("memory.available")),
        ("resource", json!("memory")),
        ("reason", json!("Evicted")),
        ("gracePeriodSeconds", json!(0)),
        ("disruptionTarget", json!(true)),
        ("dryRun", json!(false)),
    ] {
        assert_eq!(decision[key], expected, "{key}: {decision:#}");
    }
    let words = decision["message"].as_str().unwrap();
    let head = "The node was low on resource: memory. Threshold quantity: 64Mi, available: ";
    assert!(words.starts_with(head), "{words}");
    assert!(words.contains("Container main was using "), "{words}");
    assert_eq!(decision["annotations"]["starved_resource"], "memory");
    assert_eq!(decision["annotations"]["offending_containers"], "main");
    let ranking: Vec<&Value> = decision["ranking"].as_array().unwrap().iter().collect();
    assert_eq!(ranking[0]["pod"], "shop/hog");
    assert_eq!(ranking[0]["exceedsRequest"], true);
    assert_eq!(ranking[1]["exceedsRequest"], false);
    let outcome = &decision["outcome"];
    assert_eq!(outcome["processes"], 1);
    assert_eq!(outcome["survivors"], json!([]));
    assert!(
        outcome["reactionSeconds"].as_f64().unwrap()
            >= outcome["lastProcessGoneSeconds"].as_f64().unwrap()
    );

    the_sockets_tell_it(&daemon, decision);
    the_log_tells_it(&daemon, decision);
    the_condition_outlives_its_cause(&daemon, decision);
    daemon.some_turns_pass();
    assert_eq!(daemon.evictions().len(), 1);
    assert!(modest.lives());
}

fn the_sockets_tell_it(daemon: &Daemon, decision: &Value) {
    let by_signal = "{signal=\"memory.available\"}";
    let labels = "{signal=\"memory.available\",kind=\"hard\"}";
    assert_eq!(daemon.count(&format!("evictd_evictions_total{labels}")), 1);
    assert_eq!(daemon.count("evictd_reaction_seconds_count"), 1);
    assert_eq!(
        daemon.count(&format!("evictd_stats_age_seconds_count{by_signal}")),
        1
    );
    assert!(daemon.metric::<f64>(&format!("evictd_stats_age_seconds_sum{by_signal}")) > 0.0);
    assert_eq!(
        daemon.count(&format!("evictd_threshold{labels}")),
        67_108_864
    );
    assert!(daemon.count(&format!("evictd_signal_available{by_signal}")) > 67_108_864);
    daemon.eventually("the pod is counted no more", |daemon| {
        daemon.status()["pods"]["active"] == 1
    });
    let status = daemon.command(&["status"]);
    assert_eq!(status["lastDecision"], *decision);
    let memory = &status["signals"][0];
    assert_eq!(
        (&memory["signal"], &memory["problem"]),
        (&json!("memory.available"), &Value::Null)
    );
    assert_eq!(memory["thresholds"][0]["met"], false);
    assert!(
        status["layout"].as_str().unwrap().contains("nodefs"),
        "{status:#}"
    );
    let rank = daemon.command(&["rank"]);
    assert_eq!(rank["signal"], "memory.available");
    assert_eq!(rank["next"], "shop/modest");
    assert_eq!(rank["pods"].as_array().unwrap().len(), 1);
}

/// One line a decision with the fields to search by, one before it on what is being done, and after it one on how it went and
/// one on the largest process, if that was read in time.
fn the_log_tells_it(daemon: &Daemon, decision: &Value) {
    let log = daemon.log();
    let about: Vec<&Value> = log
        .iter()
        .filter(|line| line["EVICTD_DECISION_ID"] == decision["id"])
        .filter(|line| !message(line).starts_with("the largest process of shop/hog is "))
        .collect();
    assert_eq!(about.len(), 3, "{log:#?}");
    assert_eq!(message(about[0]), "Attempting to reclaim memory");
    assert_eq!(about[0]["EVICTD_REASON"], "EvictionThresholdMet");
    let evicting = message(about[1]);
    let head = "evicting shop/hog: memory.available is ";
    assert!(evicting.starts_with(head), "{evicting}");
    // One notation: that of the kubelet's message is only in the message.
    assert!(!evicting.contains("Ki"), "{evicting}");
    for (field, expected) in [
        ("EVICTD_SIGNAL", &decision["signal"]),
        ("EVICTD_KIND", &decision["kind"]),
        ("EVICTD_POD", &decision["pod"]),
        ("EVICTD_POD_UID", &decision["uid"]),
    ] {
        assert_eq!(about[1][field], *expected);
    }
    assert!(message(about[2]).starts_with("shop/hog is gone: 1 process, "));
    assert_eq!(about[1]["level"], "WARN");
}

fn the_condition_outlives_its_cause(daemon: &Daemon, decision: &Value) {
    daemon.eventually("the condition ends", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == false
    });
    let ended = &daemon.condition("MemoryPressure")["since"];
    assert!(
        seconds_between(&decision["time"], ended) >= 2.0,
        "{decision:#}"
    );
    assert_eq!(
        daemon.count("evictd_node_condition{condition=\"MemoryPressure\"}"),
        0
    );
}

/// The machine has process ids in plenty, while the pods' cgroup runs out of its own.
#[test]
fn a_pod_that_takes_the_process_ids_of_all_pods_goes() {
    let Some(node) = Node::new("a_pod_that_takes_the_process_ids_of_all_pods_goes") else {
        return;
    };
    let pods = node.limit_pids_of("pods", 120);
    let mut quiet = node.worker("pods/quiet", "--hold 32Mi");
    let mut forker = node.worker("pods/forker", "--threads 112 --per-second 200");
    for name in ["quiet", "forker"] {
        node.admit_to("manifests", name, &pods.join(name), requests("64Mi"));
    }
    let roots = format!("cgroupRoots: ['{}']", pods.display());
    let daemon = Daemon::start(&node, &[("pid.available", "10%")], &roots);
    let capacity = "evictd_signal_capacity{signal=\"allocatablePid.available\"}";
    assert_eq!(daemon.count(capacity), 120);
    forker.grow();
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/forker"]);
    assert_eq!(decisions[0]["signal"], "allocatablePid.available");
    assert_eq!(decisions[0]["resource"], "pids");
    assert_eq!(decisions[0]["shares"]["capacity"], "120");
    daemon.eventually("the condition is raised", |daemon| {
        daemon.condition("PIDPressure")["raised"] == true
    });
    assert!(quiet.lives() && !forker.lives());
}

#[test]
fn a_pod_that_starts_thread_after_thread_goes() {
    let Some(node) = Node::new("a_pod_that_starts_thread_after_thread_goes") else {
        return;
    };
    node.limit_pids(120);
    let mut quiet = node.pod("quiet", "--hold 32Mi", Traits::default());
    let mut forker = node.pod("forker", "--threads 90 --per-second 100", requests("64Mi"));
    let daemon = Daemon::start(&node, &[("pid.available", "50")], "");
    forker.grow();
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/forker"]);
    assert_eq!(decisions[0]["signal"], "pid.available");
    assert_eq!(decisions[0]["resource"], "pids");
    daemon.eventually("the condition is raised", |daemon| {
        daemon.condition("PIDPressure")["raised"] == true
    });
    assert!(quiet.lives() && !forker.lives());
}
