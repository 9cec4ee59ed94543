//! Manifests that come, change and go while the daemon runs.

use crate::daemon::Daemon;
use crate::node::{Node, Traits, requests, spec};
use serde_json::{Value, json};
use std::fs;

fn active(daemon: &Daemon) -> i64 {
    daemon.status()["pods"]["active"].as_i64().unwrap()
}

fn warnings(daemon: &Daemon) -> String {
    daemon.status()["warnings"].to_string()
}

#[test]
fn s1_085_s1_086_s1_087_s1_088_under_pressure_a_new_pod_waits_outside() {
    let Some(node) = Node::new("under_pressure_a_new_pod_waits_outside") else {
        return;
    };
    let critical = json!({ "priorityClassName": "system-node-critical" });
    let mut cause = node.pod("cause", "--hold 90Mi", spec(critical.clone()));
    let daemon = Daemon::start(
        &node,
        &[("memory.available", "110Mi")],
        "admission: reject\nevictionPressureTransitionPeriod: 1s",
    );
    daemon.eventually("pressure", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    node.admit("besteffort", Traits::default());
    daemon.eventually("it is turned away", |daemon| {
        warnings(daemon).contains("shop/besteffort is not admitted")
    });
    assert_eq!(
        daemon.said("pod not admitted: Evicted: The node had condition: [MemoryPressure]."),
        1
    );
    node.admit("burstable", requests("16Mi"));
    node.admit("critical", spec(critical));
    daemon.eventually("the others are let in", |daemon| active(daemon) == 3);

    let asked = daemon.command(&[
        "admit",
        "--pod",
        node.path("manifests/besteffort.yaml").to_str().unwrap(),
    ]);
    assert_eq!(
        (&asked["allowed"], &asked["reason"]),
        (&json!(false), &json!("Evicted"))
    );
    let asked = daemon.command(&[
        "admit",
        "--pod",
        node.path("manifests/burstable.yaml").to_str().unwrap(),
    ]);
    assert_eq!(asked["allowed"], true);

    cause.end();
    daemon.eventually("it is let in once the pressure is over", |daemon| {
        active(daemon) == 4
    });
    daemon.eventually("nothing is wrong with it any more", |daemon| {
        !warnings(daemon).contains("not admitted")
    });
}

#[test]
fn after_a_restart_the_condition_holds_and_rejected_pods_stay_rejected() {
    let Some(node) = Node::new("a_restart_holds_the_condition") else {
        return;
    };
    let _hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let start = || {
        let lines = "admission: reject\nevictionPressureTransitionPeriod: 1h";
        Daemon::start(&node, &[("memory.available", "110Mi")], lines)
    };
    let is_held = |daemon: &Daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
            && warnings(daemon).contains("shop/besteffort is not admitted")
    };
    let daemon = start();
    daemon.evicted(1);
    node.admit("besteffort", Traits::default());
    daemon.eventually("it is turned away", is_held);
    daemon.eventually("that is kept", |_| {
        let kept = fs::read_to_string(node.path("run/conditions")).unwrap_or_default();
        kept.contains("shop/besteffort")
    });
    drop(daemon);
    let daemon = start();
    assert_eq!(daemon.said("MemoryPressure holds, as before this start"), 1);
    assert_eq!(daemon.said("MemoryPressure is raised"), 0);
    daemon.some_turns_pass();
    assert!(is_held(&daemon));
    drop(daemon);
    // A newer version has written it.
    fs::write(node.path("run/conditions"), r#"{"version":99}"#).unwrap();
    let daemon = start();
    assert_eq!(daemon.said("was written by a newer evictd"), 1);
    assert!(!is_held(&daemon));
}

#[test]
fn manifests_are_followed_and_a_bad_one_is_reported_and_harms_no_other() {
    let Some(node) = Node::new("manifests_are_followed") else {
        return;
    };
    let _web = node.pod("web", "--hold 8Mi", Traits::default());
    let daemon = Daemon::start(&node, &[("memory.available", "16Mi")], "");
    assert_eq!(active(&daemon), 1);

    let bad = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: bad\nspec:\n  terminationGracePeriodSeconds: soon\n  containers: []\n";
    fs::write(node.path("manifests/bad.yaml"), bad).unwrap();
    daemon.eventually("the mistake is told", |daemon| {
        warnings(daemon).contains("bad.yaml")
    });
    let told = warnings(&daemon);
    let place = "manifests/bad.yaml:6:34: bad: spec.terminationGracePeriodSeconds: ";
    assert!(told.contains(place), "{told}");
    assert_eq!(active(&daemon), 1);

    let moved = node.path("elsewhere");
    fs::rename(node.path("manifests"), &moved).unwrap();
    daemon.eventually("the directory is missed", |daemon| {
        warnings(daemon).contains("cannot read the manifest directory")
    });
    assert_eq!(active(&daemon), 1);
    fs::remove_file(moved.join("bad.yaml")).unwrap();
    fs::rename(&moved, node.path("manifests")).unwrap();
    daemon.eventually("it is back", |daemon| {
        daemon.status()["warnings"] == json!([])
    });
    assert_eq!(active(&daemon), 1);

    node.group.make("db");
    node.admit("db", Traits::default());
    daemon.eventually("another pod is there", |daemon| active(daemon) == 2);
    let requested = |daemon: &Daemon| -> Vec<Value> {
        let pods = daemon.get("/v1/ranking").unwrap()["pods"].clone();
        let mut pods: Vec<Value> = serde_json::from_value(pods).unwrap();
        pods.retain(|pod| pod["pod"] == "shop/db");
        pods.into_iter().map(|pod| pod["request"].clone()).collect()
    };
    assert_eq!(requested(&daemon), [json!("0")]);
    node.admit("db", requests("24Mi"));
    daemon.eventually("its new version counts", |daemon| {
        requested(daemon) == [json!("24Mi")]
    });
    fs::remove_file(node.path("manifests/db.yaml")).unwrap();
    daemon.eventually("it is gone", |daemon| active(daemon) == 1);
}
