//! Who is never chosen.

use crate::daemon::{Daemon, names};
use crate::node::{Node, Traits, metadata, spec};
use serde_json::json;
use std::path::Path;

/// Nothing can lift the node above this.
const ALWAYS_LOW: [(&str, &str); 1] = [("memory.available", "191Mi")];

#[test]
fn s1_045_s1_046_pods_that_are_never_chosen_survive_and_a_new_one_does_not() {
    let Some(node) = Node::new("pods_that_are_never_chosen_survive") else {
        return;
    };
    let traits = [
        (
            "critical",
            spec(json!({ "priorityClassName": "system-node-critical" })),
        ),
        ("namespace", metadata(json!({ "namespace": "kube-system" }))),
        ("label", metadata(json!({ "labels": { "tier": "db" } }))),
        (
            "never",
            metadata(json!({ "annotations": { "evictd.dev/eviction": "never" } })),
        ),
    ];
    let mut workers: Vec<_> = traits
        .into_iter()
        .map(|(name, traits)| node.pod(name, "--hold 8Mi", traits))
        .collect();
    // A static pod, one that no manifest names, and one whose manifest names a cgroup that is not there.
    workers.push(node.worker("fixed", "--hold 8Mi"));
    node.admit_to(
        "static",
        "fixed",
        &node.group.relative.join("fixed"),
        Traits::default(),
    );
    workers.push(node.worker("stranger", "--hold 8Mi"));
    node.admit("nowhere", Traits::default());
    // And one that points at the node itself, one that points out of it.
    node.admit_to(
        "manifests",
        "whole",
        &node.group.relative,
        Traits::default(),
    );
    node.admit_to("manifests", "outside", Path::new("/"), Traits::default());
    let daemon = Daemon::start(
        &node,
        &ALWAYS_LOW,
        "protect: {namespaces: [kube-system], selectors: [{matchLabels: {tier: db}}]}
podPreference: {namespaces: [shop]}
evictWithoutRelief: true",
    );
    daemon.eventually("it says that nobody may go", |daemon| {
        daemon.said("no pod is evicted") == 1
    });
    daemon.some_turns_pass();
    assert!(workers.iter_mut().all(crate::node::Worker::lives));
    let decisions = daemon.history();
    assert_eq!(
        (
            names(&decisions),
            decisions[0]["withheld"]["because"].as_str()
        ),
        (vec!["nobody"], Some("allSpared"))
    );
    assert_eq!(
        daemon.said("no pod is evicted"),
        1,
        "a state that stays is said once"
    );
    let warnings = daemon.status()["warnings"].to_string();
    for refused in [
        "shop/nowhere is not tied to cgroup",
        "shop/whole is not tied to cgroup",
        "shop/outside is not tied to cgroup",
    ] {
        assert!(warnings.contains(refused), "{refused}: {warnings}");
    }
    assert!(
        warnings.contains("memory.available has crossed its threshold and no pod is evicted: ")
    );

    let mut ordinary = node.pod("ordinary", "--hold 8Mi", Traits::default());
    daemon.evicted(1);
    assert!(!ordinary.lives() && workers.iter_mut().all(crate::node::Worker::lives));
    assert_eq!(
        daemon
            .said("shop/ordinary would not be admitted: The node had condition: [MemoryPressure]."),
        1
    );
}
