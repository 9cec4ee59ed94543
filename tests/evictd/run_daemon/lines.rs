//! What the log tells between decisions.

use crate::daemon::{Daemon, message};
use crate::node::{Node, Traits};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

#[test]
fn the_log_has_the_start_raised_and_cleared_conditions_and_the_end() {
    let name = "the_log_has_the_start_raised_and_cleared_conditions_and_the_end";
    let Some(node) = Node::new(name) else { return };
    let growing = "--hold 2Mi --grow-to 100Mi --per-second 400Mi";
    let mut hog = node.pod("hog", growing, Traits::default());
    let lines = "evictionPressureTransitionPeriod: 1s\n\
                 evictionSoft: {memory.available: 60%}\nevictionSoftGracePeriod: {memory.available: 90s}";
    let mut daemon = Daemon::start(&node, &[("memory.available", "110Mi")], lines);
    let log = daemon.log();
    let of_start = |line: &&Value| line["EVICTD_REASON"] == "Started";
    let begun: Vec<&Value> = log.iter().filter(of_start).collect();
    // A sentence is one record, however long it is.
    let sentences: Vec<&str> = begun.iter().copied().map(message).collect();
    let is_continued = |sentence: &&&str| sentence.starts_with(' ');
    assert_eq!(sentences.iter().find(is_continued), None);
    assert!(sentences.iter().any(|one| one.chars().count() > 80));
    let started = sentences.join("\n");
    let file = node.path("evictd.yaml");
    for part in [
        concat!("evictd ", env!("CARGO_PKG_VERSION"), " has started: "),
        &format!("{} (EvictionConfiguration)", file.display()),
        "this node has 192Mi of memory and ",
        " process ids, nodefs ",
        "memory.available<110Mi",
        "memory.available<60% (115Mi, soft, 1m 30s)",
        "pods from manifests (",
        "their usage from cgroup (",
        "evicted by cgroup (",
    ] {
        assert!(started.contains(part), "no {part:?} in {started}");
    }
    assert!(!started.contains("DRY RUN"), "{started}");
    let file = file.to_str().unwrap();
    for (field, value) in [
        ("VERSION", json!(env!("CARGO_PKG_VERSION"))),
        ("CONFIGURATION", json!(file)),
        ("RULES", json!("EvictionConfiguration")),
        ("MODE", json!("evict")),
        ("MEMORY_BYTES", json!(192 << 20)),
        (
            "THRESHOLDS",
            json!("memory.available<110Mi, memory.available<60% (115Mi, soft, 1m 30s)"),
        ),
        ("SETTING", json!("pods.source")),
        ("VALUE", json!("manifests")),
        ("SETTING", json!("evict.method")),
    ] {
        let name = format!("EVICTD_{field}");
        assert!(
            begun.iter().any(|line| line[&name] == value),
            "no {name}={value} in {begun:#?}"
        );
    }
    hog.grow();
    daemon.evicted(1);
    for line in [
        "MemoryPressure is raised: ",
        "MemoryPressure is cleared: ",
        "memory.available has crossed its soft threshold of 60%: ",
        "memory.available is above its soft threshold of 60% again: ",
    ] {
        daemon.eventually(line, |daemon| daemon.said(line) == 1);
    }
    daemon.signal(Signal::SIGTERM);
    assert!(daemon.ended().success());
    assert_eq!(daemon.said(" has stopped"), 1);
    assert_eq!(daemon.said(" has started: "), 1);
}
