//! `evictd pause` and the Node's annotation: nobody is ended, and everybody is told.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names, seconds_between};
use crate::node::{Node, Traits};
use evictd_testkit::program;
use serde_json::{Value, json};

const LOW: [(&str, &str); 1] = [("memory.available", "110Mi")];
const GROWS: &str = "--hold 2Mi --grow-to 100Mi --per-second 400Mi";

/// What a person is shown.
fn page(daemon: &Daemon, command: &[&str]) -> String {
    let mut command = crate::evictd(command);
    program::page(&program::run(
        command.arg("--socket").arg(&daemon.socket),
        "",
    ))
}

#[test]
fn while_paused_no_pod_is_terminated_and_decisions_are_published() {
    let name = "while_paused_no_pod_is_terminated_and_decisions_are_published";
    let Some(node) = Node::new(name) else { return };
    let mut hog = node.pod("hog", GROWS, Traits::default());
    let daemon = Daemon::start(&node, &LOW, "");
    assert_eq!(daemon.status()["paused"], Value::Null);
    assert_eq!(daemon.count("evictd_paused"), 0);
    let answer = daemon.command(&["pause", "--for", "1h"]);
    let brief = &answer["paused"];
    let lasts = seconds_between(&brief["since"], &brief["until"]);
    assert!((lasts - 3600.0).abs() < 0.1, "{answer}");
    let said = page(&daemon, &["pause"]);
    assert_eq!(
        said,
        "Paused: no pod is terminated (`evictd resume` ends it).\n"
    );
    let answer = daemon.command(&["pause", "--reason", "a drill"]);
    assert_eq!(
        (&answer["paused"]["reason"], &answer["notKept"]),
        (&json!("a drill"), &Value::Null)
    );
    hog.grow();
    let would = "would evict shop/hog: ";
    daemon.eventually("it tells what it would do", |daemon| {
        daemon.said(would) == 1
    });
    daemon.eventually("the condition is raised", |daemon| {
        daemon.condition("MemoryPressure")["raised"] == true
    });
    assert_eq!(daemon.said("(paused by `evictd pause`: a drill)"), 1);
    assert_eq!(
        daemon.said("PAUSED by `evictd pause`: a drill; no pod is terminated"),
        1
    );
    let paused = daemon.status()["paused"].clone();
    assert_eq!(
        (&paused["by"], &paused["until"]),
        (&json!("command"), &Value::Null)
    );
    assert_eq!(daemon.count("evictd_paused"), 1);
    assert!(page(&daemon, &["status"]).contains("PAUSED    since "));
    assert!(page(&daemon, &["top"]).contains("PAUSED by"));
    let decisions = daemon.history();
    assert_eq!(decisions[0]["dryRun"], true);
    assert_eq!(decisions[0]["paused"]["reason"], "a drill");
    daemon.some_turns_pass();
    drop(daemon);

    // It holds through a restart.
    let daemon = Daemon::start(&node, &LOW, "");
    assert_eq!(daemon.status()["paused"], paused);
    daemon.eventually("it tells what it would do", |daemon| {
        daemon.said(would) == 1
    });
    daemon.some_turns_pass();
    assert!(hog.lives());
    assert_eq!(daemon.command(&["resume"])["paused"], Value::Null);
    let last = daemon.evicted(1).pop().unwrap();
    assert_eq!(
        (names(std::slice::from_ref(&last)), &last["dryRun"]),
        (vec!["shop/hog"], &json!(false))
    );
    assert!(!hog.lives());
    assert_eq!(daemon.said("the pause is over"), 1);
    assert!(!node.path("run/paused").exists());
}

#[test]
fn an_annotation_of_the_node_pauses() {
    let Some(cluster) = Cluster::new("an_annotation_of_the_node_pauses") else {
        return;
    };
    let annotated =
        json!({ "metadata": { "annotations": { "evictd.dev/paused": "maintenance" } } });
    cluster.admin.merge("nodes", "test", annotated).unwrap();
    let uid = cluster.create("hog", &json!({}));
    let mut hog = cluster.run(&uid, GROWS);
    let daemon = Daemon::start(&cluster.node, &LOW, &cluster.lines());
    daemon.eventually("the annotation is read", |daemon| {
        daemon.status()["paused"]["reason"] == "maintenance"
    });
    hog.grow();
    daemon.eventually("it tells what it would do", |daemon| {
        daemon.said("(paused by the Node's annotation evictd.dev/paused: maintenance)") == 1
    });
    daemon.some_turns_pass();
    // The command takes back only what the command began.
    let answer = daemon.command(&["resume"]);
    assert_eq!(answer["paused"]["by"], "annotation");
    assert!(page(&daemon, &["resume"]).contains("evictd.dev/paused-"));
    let node = cluster.admin.get("nodes", "test").unwrap();
    assert_eq!(node["spec"]["taints"].as_array().map_or(0, Vec::len), 0);
    assert!(hog.lives());
}
