//! Soft thresholds: a condition at once, a grace period, and a polite end.

use crate::daemon::{Daemon, names, seconds_between};
use crate::node::{Node, Traits, spec};
use serde_json::json;

const SOFT: &str = "evictionSoft: {memory.available: 110Mi}
evictionSoftGracePeriod: {memory.available: 1s}
evictionPressureTransitionPeriod: 1s";

#[test]
fn s1_030_s1_048_s1_050_a_soft_victim_is_asked_after_the_grace_period_and_killed_after_its_own() {
    let Some(node) = Node::new("a_soft_victim_is_asked_and_killed_after_its_own_grace") else {
        return;
    };
    let mut deaf = node.deaf_worker("deaf", "--hold 16Mi --grow-to 110Mi --per-second 200Mi");
    node.admit("deaf", spec(json!({ "terminationGracePeriodSeconds": 2 })));
    let mut other = node.pod("other", "--hold 8Mi", Traits::default());
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], SOFT);
    deaf.grow();
    daemon.eventually("the condition is raised", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    let raised = daemon.condition("MemoryPressure")["since"].clone();
    assert!(deaf.lives());
    daemon.eventually("somebody is chosen", |daemon| daemon.said("evicting ") == 1);
    // While the victim holds its memory and has its grace, nobody else is chosen.
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/deaf"]);
    assert_eq!(decisions[0]["kind"], "soft");
    assert_eq!(decisions[0]["gracePeriodSeconds"], 2);
    assert!(
        // On a busy machine the condition is written a moment after the threshold was seen crossed.
        seconds_between(&raised, &decisions[0]["time"]) >= 0.5,
        "{raised} {decisions:#?}"
    );
    let outcome = &decisions[0]["outcome"];
    let asked = outcome["firstSignalSeconds"].as_f64().unwrap();
    let killed = outcome["killedSeconds"].as_f64().unwrap();
    assert!((1.9..10.0).contains(&(killed - asked)), "{outcome:#}");
    daemon.some_turns_pass();
    assert!(other.lives() && daemon.evictions().len() == 1);
    let labels = "{signal=\"memory.available\",kind=\"soft\"}";
    assert_eq!(daemon.count(&format!("evictd_evictions_total{labels}")), 1);
}

#[test]
fn a_pre_kill_hook_runs_before_the_first_signal_and_one_that_hangs_is_ended() {
    let Some(node) = Node::new("a_pre_kill_hook_runs_before_the_first_signal") else {
        return;
    };
    let mut hog = node.pod(
        "hog",
        "--hold 16Mi --grow-to 110Mi --per-second 200Mi",
        Traits::default(),
    );
    let hook = "preKillHook: {command: [/bin/sh, -c, 'echo saved $EVICTD_POD; sleep 1000'], budget: 700ms}";
    let lines = format!("{SOFT}\n{hook}");
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], &lines);
    hog.grow();
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/hog"]);
    let outcome = &decisions[0]["outcome"];
    assert_eq!(outcome["hook"]["outcome"], "timed-out", "{outcome:#}");
    assert_eq!(outcome["hook"]["output"], "saved shop/hog\n");
    let asked = outcome["firstSignalSeconds"].as_f64().unwrap();
    assert!((0.7..10.0).contains(&asked), "{outcome:#}");
    assert!(daemon.said("the pre-kill hook of shop/hog took too long") == 1);
}
