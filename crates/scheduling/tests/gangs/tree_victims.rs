//! Pods of trees of groups as victims (S7-121).

use crate::trees::{composite, leaf};
use crate::{Scene, group, pod};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::{GroupOutcome, Outcome};
use serde_json::{Value, json};

fn whole(mut group: Value, priority: i32) -> Value {
    group["spec"]["disruptionMode"] = json!({ "all": {} });
    group["spec"]["priority"] = json!(priority);
    group
}

/// Pods of priority 10 in the groups x and y on nodes of these names, under m and the root r. `of_m` and `of_r` are the objects.
fn old_tree(of_m: Value, of_r: Value) -> Scene {
    let mut scene = Scene::new();
    // Before, single pods see no groups.
    let release = Compatibility::of(Release::V1_37);
    scene.scheduler.set_compatibility(release);
    for name in ["x", "y"] {
        scene.node(name, "2", "a");
    }
    scene.composite(of_r);
    scene.composite(of_m);
    for (name, parent) in [("x", "m"), ("y", "r")] {
        scene.group(leaf(name, 1, parent));
        let mut old = pod(&format!("{name}-0"), name, "2");
        old["spec"]["nodeName"] = json!(name);
        old["spec"]["priority"] = json!(10);
        scene.pod(&format!("{name}-0"), Some(old));
    }
    scene
}

/// The victims of a pod of priority 100, or of a group of such a pod, and the groups that are preempted as a whole.
fn evicted(mut scene: Scene, by_group: bool) -> (Vec<String>, Vec<String>) {
    let mut new = pod("new", if by_group { "g" } else { "" }, "2");
    new["spec"]["priority"] = json!(100);
    if by_group {
        let mut group = group("g", 1);
        group["spec"]["priority"] = json!(100);
        scene.group(group);
    }
    scene.pod("new", Some(new));
    let (victims, _) = scene.preempted();
    let results = scene.results().into_iter();
    let preempted =
        results.filter(|(_, outcome)| matches!(outcome, GroupOutcome::Preempted { .. }));
    (victims, preempted.map(|(name, _)| name).collect())
}

/// The name, the objects of m and r, the victims, and the groups whose condition says that they are preempted.
type Case<'c> = (&'c str, Value, Value, &'c [&'c str], &'c [&'c str]);

#[test]
fn s7_121_the_highest_group_with_mode_all_is_one_victim_with_all_its_pods_by_the_priority_of_the_root()
 {
    let (m, r) = (|| composite("m", 1, "r"), || composite("r", 1, ""));
    let priority = |mut group: Value, priority: i32| {
        group["spec"]["priority"] = json!(priority);
        group
    };
    let both = ["default/x-0", "default/y-0"];
    let cases: [Case<'_>; 6] = [
        ("the root", m(), whole(r(), 10), &both, &["r"]),
        ("both levels", whole(m(), 10), whole(r(), 10), &both, &["r"]),
        (
            "the middle",
            whole(m(), 10),
            priority(r(), 10),
            &both[..1],
            &["m"],
        ),
        ("none", m(), priority(r(), 10), &both[..1], &[]),
        (
            "the whole root is as important",
            m(),
            whole(r(), 100),
            &[],
            &[],
        ),
        (
            "the root alone is as important",
            whole(m(), 0),
            priority(r(), 100),
            &[],
            &[],
        ),
    ];
    for (case, of_m, of_r, victims, groups) in cases {
        for by_group in [false, true] {
            let scene = old_tree(of_m.clone(), of_r.clone());
            let (found, preempted) = evicted(scene, by_group);
            // One pod makes enough room. Which one does not matter here.
            if victims.len() == 1 && by_group {
                assert_eq!(found.len(), 1, "{case}: {found:?}");
                continue;
            }
            assert_eq!(found, victims, "{case}, {by_group}");
            assert_eq!(preempted, groups, "{case}, {by_group}");
        }
    }
}

/// Running pods of a tree that has become invalid: each group is a victim by itself.
#[test]
fn s7_121_in_a_cycle_no_pod_is_in_two_victims() {
    for by_group in [false, true] {
        let (m, r) = (composite("m", 1, "r"), composite("r", 1, "m"));
        let scene = old_tree(whole(m, 10), whole(r, 10));
        let (found, preempted) = evicted(scene, by_group);
        assert_eq!((found.len(), preempted.len()), (1, 0), "{found:?}");
    }
}

#[test]
fn a_later_pod_of_a_group_says_that_the_victims_of_the_others_are_awaited() {
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.running("cheap", "one", "2", 0);
    let important = |mut object: Value| {
        object["spec"]["priority"] = json!(100);
        object
    };
    scene.group(important(group("g", 1)));
    scene.pod("g-0", Some(important(pod("g-0", "g", "2"))));
    assert_eq!(scene.attempts().len(), 1);
    let now = scene.now;
    assert!(scene.scheduler.begin_preemption(now, "g-0", "one"));
    scene.pod("g-1", Some(important(pod("g-1", "g", "2"))));
    let attempts = scene.attempts().into_iter();
    let later = attempts.filter(|attempt| &*attempt.key == "g-1");
    let messages: Vec<String> = later
        .filter_map(|attempt| match attempt.outcome {
            Outcome::Unschedulable(rejected) => Some(rejected.message),
            _ => None,
        })
        .collect();
    let waits = "pod group \"default/g\" waits for its victims to terminate";
    assert_eq!(messages, [waits]);
}
