//! The evidence about the victim of an eviction, and about a node that came near a threshold.

use crate::cluster::Cluster;
use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, Worker};
use evictd_testkit::program;
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;

/// Evidence that takes longer than a kill waits is left out, as on a machine that is busy with tests: then another pod is evicted.
const TRIES: usize = 30;
const GROWING: &str = "--hold 2Mi --grow-to 100Mi --per-second 400Mi";
const LOW: &str = "110Mi";

/// What a command prints for a terminal of 80 columns.
fn page(daemon: &Daemon, arguments: &[&str]) -> String {
    let mut command = crate::evictd(arguments);
    command
        .args(["-o", "table", "--socket"])
        .arg(&daemon.socket);
    let page = program::page(&program::run(command.env("COLUMNS", "80"), ""));
    let widest = page.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{page}");
    page
}

/// The record of the eviction of this pod, if its largest process was read as far as this key.
fn evicted(daemon: &Daemon, mut hog: Worker, key: &str) -> Option<Value> {
    hog.grow();
    let mut evicted = daemon.evicted(1);
    assert_eq!(names(&evicted), ["shop/hog"]);
    let record = evicted.remove(0);
    let first = &record["outcome"]["contents"]["processes"][0];
    let is_read = !first[key].is_null();
    is_read.then_some(record)
}

#[test]
fn an_eviction_says_which_process_held_most() {
    let name = "an_eviction_says_which_process_held_most";
    for _ in 0..TRIES {
        let Some(node) = Node::new(name) else { return };
        let hog = node.pod("hog", GROWING, Traits::default());
        let daemon = Daemon::start(
            &node,
            &[("memory.available", LOW)],
            "record: {commandLines: true}",
        );
        let Some(record) = evicted(&daemon, hog, "commandLine") else {
            continue;
        };
        let first = &record["outcome"]["contents"]["processes"][0];
        assert_eq!(first["name"], "evictd");
        assert_eq!(first["containerName"], "main");
        let line = first["commandLine"].as_str().unwrap();
        assert!(line.contains("worker --hold 2Mi"), "{line}");
        assert_eq!(record["parts"][0]["name"], "container main");
        assert_eq!(daemon.said("the largest process of shop/hog is evictd "), 1);
        let shown = page(&daemon, &["history", record["id"].as_str().unwrap()]);
        for part in [
            "HELD BY    evictd ",
            " in container",
            "PROCESS",
            "COMMAND",
            "container main",
        ] {
            assert!(shown.contains(part), "{part} in {shown}");
        }
        return;
    }
    panic!("never read in time");
}

#[test]
fn the_event_of_an_eviction_names_the_largest_process_and_no_command_line() {
    for _ in 0..TRIES {
        let Some(cluster) = Cluster::new("the_event_of_an_eviction_names_the_largest_process")
        else {
            return;
        };
        let hog = cluster.pod("hog", GROWING);
        let daemon = cluster.daemon(LOW);
        let Some(record) = evicted(&daemon, hog, "name") else {
            continue;
        };
        let mut note = String::new();
        daemon.eventually("the event is there", |_| {
            let events = cluster.admin.list("events");
            let mut events = events.iter().filter(|event| event["reason"] == "Evicted");
            let event = events.next();
            note = event.map_or_else(String::new, |event| {
                event["message"].as_str().unwrap().to_owned()
            });
            event.is_some()
        });
        assert!(
            note.starts_with("The node was low on resource: memory. "),
            "{note}"
        );
        assert!(note.contains(" Largest process: evictd "), "{note}");
        let status = cluster.admin.get("pods", "shop/hog").unwrap()["status"].clone();
        assert!(!status.to_string().contains("Largest process"), "{status}");
        let processes = &record["outcome"]["contents"]["processes"];
        assert!(
            !processes.to_string().contains("commandLine"),
            "{processes}"
        );
        return;
    }
    panic!("never read in time");
}

#[test]
fn a_node_that_came_near_its_threshold_reports_it_after_a_restart() {
    let name = "a_node_that_came_near_its_threshold_reports_it_after_a_restart";
    let Some(node) = Node::new(name) else { return };
    // Of 192Mi some 122Mi are left, where 110Mi are the threshold.
    let _large = node.pod("large", "--hold 60Mi", Traits::default());
    let _small = node.pod("small", "--hold 8Mi", Traits::default());
    let start = || Daemon::start(&node, &[("memory.available", LOW)], "dryRun: true");
    let mut daemon = start();
    daemon.eventually("it knows that it is near, and who holds most", |daemon| {
        let near = daemon.get("/v1/near-misses").unwrap();
        near["ongoing"][0]["holders"][0]["pod"] == "shop/large"
    });
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
    let file = node.path("state/near-misses.json");
    assert!(fs::read_to_string(&file).unwrap().contains("shop/large"));
    let daemon = start();
    let report = daemon.command(&["report"]);
    let near = &report["nearMisses"][0];
    assert_eq!(near["signal"], "memory.available");
    assert!(near["times"].as_u64() >= Some(1), "{report}");
    let shown = page(&daemon, &["report"]);
    for part in [
        "nearly met",
        "Near misses",
        "memory.available",
        "110Mi (hard)",
        "shop/large",
    ] {
        assert!(shown.contains(part), "{part} in {shown}");
    }
    eprintln!("{shown}");
    drop(daemon);
    fs::write(&file, "{ half a fi").unwrap();
    let daemon = start();
    assert_eq!(
        daemon.said("near misses from before this start are not used"),
        1
    );
    assert!(node.path("state/near-misses.damaged.json").exists());
}
