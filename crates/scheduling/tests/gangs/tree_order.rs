//! The order in which the groups of a tree are tried (S7-115).

use crate::Scene;
use crate::trees::{composite, leaf};
use evictd_scheduling::GroupOutcome;
use serde_json::json;

/// A group that a composite group does not need takes no room from one that the root needs.
#[test]
fn s7_115_a_group_that_is_not_needed_comes_after_those_that_the_root_needs() {
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.composite(composite("r", 2, ""));
    for name in ["a", "b"] {
        scene.composite(composite(name, 1, "r"));
    }
    for (name, parent) in [("a1", "a"), ("a2", "a"), ("b1", "b")] {
        scene.pods(name, 1, "1");
        scene.group(leaf(name, 1, parent));
    }
    let placed: Vec<String> = scene.placed().into_keys().collect();
    assert_eq!(placed, ["a1-0", "b1-0"]);
}

/// Of two groups the older one is tried first, whatever their names.
#[test]
fn s7_115_the_oldest_group_is_tried_first() {
    let mut scene = Scene::new();
    scene.node("one", "1", "a");
    scene.composite(composite("r", 1, ""));
    for (name, minute) in [("l1", 2), ("l2", 1)] {
        scene.pods(name, 1, "1");
        let mut group = leaf(name, 1, "r");
        group["metadata"]["creationTimestamp"] = json!(format!("2026-01-01T00:0{minute}:00Z"));
        scene.group(group);
    }
    let placed: Vec<String> = scene.placed().into_keys().collect();
    assert_eq!(placed, ["l2-0"]);
}

/// S7-123: a group below the fourth level is not part of the tree, although one of its pods has a node.
#[test]
fn s7_123_a_group_below_the_fourth_level_satisfies_none_above_it() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    for (name, parent) in [("a", ""), ("b", "a"), ("c", "b"), ("d", "c")] {
        scene.composite(composite(name, 1, parent));
    }
    scene.group(leaf("deep", 1, "d"));
    scene.member_on("deep-0", ("deep", 0), "one", "1");
    scene.group(leaf("l", 1, "c"));
    scene.pods("l", 1, "8");
    scene.attempts();
    let results = scene.results();
    for name in ["a", "b", "c", "l"] {
        let outcome = &results[name];
        assert!(
            matches!(outcome, GroupOutcome::Unschedulable(_)),
            "{name}: {outcome:?}"
        );
    }
}
