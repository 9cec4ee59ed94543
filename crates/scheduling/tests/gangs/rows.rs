//! Groups as Kubernetes 1.37 schedules them, by the rows of its behaviour and the cases of its tests.

use crate::placing::{important, important_pods};
use crate::{Scene, group, pod};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::{Change, Event, GroupOutcome, Outcome, Pool};
use evictd_test_objects::node;
use serde_json::{Value, json};

pub(crate) fn basic(name: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" }, "spec": { "schedulingPolicy": { "basic": {} } } })
}

/// A group whose pods must be in one rack.
pub(crate) fn in_rack(name: &str, min_count: i32) -> Value {
    let mut group = group(name, min_count);
    group["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": "rack" }] });
    group
}

/// T01 to T05, T08 to T10.
#[test]
fn s7_023_s7_024_s7_025_a_group_is_gated_until_it_exists_and_has_its_pods() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.pods("g", 2, "1");
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 2, "T01");
    scene.group(group("g", 3));
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 2, "T02");
    scene.group(group("g", 4));
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 2, "T10");
    scene.group(group("g", 2));
    assert_eq!(scene.placed().len(), 2, "T09");
    scene.group(group("h", 3));
    scene.member_on("h-runs", ("h", 0), "one", "1");
    scene.pods("h", 2, "1");
    assert_eq!(scene.placed().len(), 2, "T03 and T08");
    scene.group(basic("web"));
    scene.pods("web", 1, "1");
    assert_eq!(scene.placed().len(), 1, "T04");
}

/// A case, its group, how many pods run, the sizes of the others, how many are placed, and why it fails.
type Attempted<'c> = (&'c str, Value, usize, &'c [&'c str], usize, String);

/// T12 to T19: a node of 4 cores, pods of the sizes, and some that run.
#[test]
fn s7_040_s7_042_an_attempt_ends_when_the_quorum_cannot_be_met() {
    let none = "pod group preemption: No preemption victims found for incoming preemptor";
    let cases: [Attempted<'_>; 6] = [
        (
            "T13",
            group("g", 3),
            0,
            &["1", "1", "9", "1"],
            3,
            String::new(),
        ),
        (
            "T14",
            group("g", 3),
            0,
            &["9", "9", "1", "1"],
            0,
            format!("minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {none}"),
        ),
        (
            "T15",
            group("g", 2),
            2,
            &["9"],
            0,
            format!("pod group is unschedulable, {none}"),
        ),
        ("T16", group("g", 2), 2, &["9", "1"], 1, String::new()),
        ("T17", group("g", 2), 1, &["1"], 1, String::new()),
        (
            "T19",
            basic("g"),
            0,
            &["9", "9"],
            0,
            format!("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {none}"),
        ),
    ];
    for (case, object, running, sizes, placed, message) in cases {
        let mut scene = Scene::new();
        scene.node("one", "4", "a");
        for index in 0..running {
            scene.member_on(&format!("runs-{index}"), ("g", 0), "one", "0");
        }
        for (index, cpu) in sizes.iter().enumerate() {
            let name = format!("g-{index}");
            scene.pod(&name, Some(pod(&name, "g", cpu)));
        }
        scene.group(object);
        assert_eq!(scene.placed().len(), placed, "{case}");
        let outcomes = scene.outcomes();
        if placed > 0 {
            assert_eq!(outcomes[0], GroupOutcome::Placed, "{case}");
        } else {
            assert_eq!(outcomes, [GroupOutcome::Unschedulable(message)], "{case}");
        }
    }
}

/// T18: the pods of a group without gang are tried together, and one is enough.
#[test]
fn s7_024_one_pod_of_a_basic_group_is_enough() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    for (name, cpu) in [("g-0", "9"), ("g-1", "9"), ("g-2", "1")] {
        scene.pod(name, Some(pod(name, "g", cpu)));
    }
    scene.group(basic("g"));
    assert_eq!(scene.placed().into_keys().collect::<Vec<_>>(), ["g-2"]);
    assert_eq!(scene.outcomes()[0], GroupOutcome::Placed);
}

/// T32 and S7-036: the priority of the group, and one policy.
#[test]
fn s7_036_s7_037_pods_that_disagree_with_their_group_are_an_error_of_all() {
    let start = "all pods in a single pod group should have the same";
    let fields = |field: &str, value: Value| {
        let mut new = pod("g-1", "g", "1");
        new["spec"][field] = value;
        new
    };
    let mut strict = group("g", 2);
    strict["spec"]["preemptionPolicy"] = json!("PreemptLowerPriority");
    let cases = [
        (
            group("g", 2),
            fields("priority", json!(5)),
            format!("{start} priority as the pod group's priority, got 5 and 0"),
        ),
        (
            group("g", 2),
            fields("preemptionPolicy", json!("Never")),
            format!("{start} preemption policy, got Never and PreemptLowerPriority"),
        ),
        (
            strict,
            fields("preemptionPolicy", json!("Never")),
            format!(
                "{start} preemption policy as the pod group's preemption policy, got Never and PreemptLowerPriority"
            ),
        ),
    ];
    let scene_of_1_37 = || {
        let mut scene = Scene::new();
        let release = Compatibility::of(Release::V1_37);
        scene.scheduler.set_compatibility(release);
        scene.node("one", "4", "a");
        scene
    };
    for (object, other, message) in cases {
        let mut scene = scene_of_1_37();
        scene.group(object.clone());
        scene.pod("g-0", Some(pod("g-0", "g", "1")));
        scene.pod("g-1", Some(other.clone()));
        let told = scene.messages();
        assert_eq!(told.len(), 2);
        assert!(told.values().all(|told| *told == message), "{told:?}");
        assert_eq!(scene.outcomes(), [GroupOutcome::Error(message.clone())]);
        assert_eq!(scene.requested("one"), 0);
        // The pods that run already count, too.
        let mut scene = scene_of_1_37();
        let mut runs = other;
        runs["spec"]["nodeName"] = json!("one");
        scene.pod("g-1", Some(runs));
        scene.group(object);
        scene.pod("g-0", Some(pod("g-0", "g", "1")));
        assert_eq!(scene.messages()["g-0"], message);
    }
}

/// kube-scheduler 1.36 compares only the names of the schedulers.
#[test]
fn pods_of_other_priorities_than_their_group_are_placed_as_1_36_does() {
    for object in [group("g", 2), basic("g")] {
        let mut scene = Scene::new();
        scene.node("one", "4", "a");
        scene.group(object);
        for (name, priority) in [("g-0", 5), ("g-1", 7)] {
            let mut new = pod(name, "g", "1");
            new["spec"]["priority"] = json!(priority);
            scene.pod(name, Some(new));
        }
        assert_eq!(scene.placed().len(), 2);
    }
}

/// T54 to T58, T62.
#[test]
fn s7_090_s7_092_the_domains_of_a_group() {
    let mut scene = Scene::new();
    scene.node("n1", "1", "r1");
    scene.node("n2", "1", "r1");
    scene.node("n3", "1", "r2");
    scene.group(in_rack("g", 3));
    scene.pods("g", 3, "1");
    let message = scene.messages().remove("g-0").unwrap();
    let start = "0/2 placements are available, reported placement status: minCount (3) cannot be satisfied: 2 scheduled, 0 \
                 remaining";
    assert!(message.starts_with(start), "T62: {message}");
    for (case, nodes, reason) in [
        (
            "T57",
            ["n1", "n3"],
            "more than 1 domain found for pod group: r1, r2",
        ),
        (
            "T58",
            ["n4", "n4"],
            "no topology domain found for pod runs-0",
        ),
    ] {
        let mut scene = Scene::new();
        scene.node("n1", "4", "r1");
        scene.node("n3", "4", "r2");
        let bare = scenario_node("n4");
        scene.tell(&bare);
        for (index, node) in nodes.iter().enumerate() {
            scene.member_on(&format!("runs-{index}"), ("g", 0), node, "1");
        }
        scene.group(in_rack("g", 1));
        scene.pods("g", 1, "1");
        let expected = format!("cannot determine domain for already scheduled pods: {reason}");
        assert_eq!(scene.messages()["g-0"], expected, "{case}");
        assert_eq!(scene.outcomes(), [GroupOutcome::Error(expected)], "{case}");
    }
}

/// A node without a rack.
pub(crate) fn scenario_node(name: &str) -> evictd_scheduling::Event {
    let node = crate::scenario::node(name).cpu("4").memory("4Gi");
    let node = node.set("/status/allocatable/pods", "10");
    evictd_scheduling::Event::Change(evictd_scheduling::Change::Node(crate::scenario::added(
        node,
    )))
}

/// T60 and T61.
#[test]
fn s7_093_s7_094_the_domain_that_takes_most_pods_and_then_the_fuller_one_wins() {
    let mut scene = Scene::new();
    scene.node("r1-a", "3", "r1");
    scene.node("r2-a", "4", "r2");
    scene.pods("g", 4, "1");
    scene.group(in_rack("g", 3));
    let placed = scene.placed();
    assert!(
        placed.values().all(|node| node == "r2-a"),
        "T60: {placed:?}"
    );
    assert_eq!(placed.len(), 4);
    let mut scene = Scene::new();
    scene.node("r1-a", "8", "r2");
    scene.node("r2-a", "8", "r1");
    scene.running("other", "r1-a", "4", 0);
    scene.pods("g", 4, "1");
    scene.group(in_rack("g", 4));
    let placed = scene.placed();
    assert_eq!(placed.len(), 4);
    assert!(
        placed.values().all(|node| node == "r1-a"),
        "T61: {placed:?}"
    );
    // Memory counts as processor time does. Each domain has the same of that.
    let mut scene = Scene::new();
    for (name, memory, rack) in [("r1-a", "8Gi", "r1"), ("r2-a", "2Gi", "r2")] {
        let node = node(name).cpu("8").memory(memory).label("rack", rack);
        let node = node.set("/status/allocatable/pods", "10");
        scene.tell(&Event::Change(Change::Node(crate::added(node))));
    }
    scene.pods("g", 2, "1");
    scene.group(in_rack("g", 2));
    let placed = scene.placed();
    assert!(placed.values().all(|node| node == "r2-a"), "{placed:?}");
    assert_eq!(placed.len(), 2);
}

/// The group of T35 to T39 and T45: two pods of the group `old` with this disruption mode and priority.
pub(crate) fn old_group(scene: &mut Scene, mode: &str, priority: i32, of_pods: i32) {
    let mut old = group("old", 1);
    old["spec"]["disruptionMode"] = json!({ mode: {} });
    old["spec"]["priority"] = json!(priority);
    scene.group(old);
    for (name, node) in [("old-0", "a"), ("old-1", "b")] {
        scene.member_on(name, ("old", of_pods), node, "2");
    }
}

/// T33, T38 to T40 and S7-066: the priority of a group counts for its pods in both modes.
#[test]
fn s7_064_s7_065_s7_066_victims_of_a_group() {
    let cases: [(&str, &str, i32, i32, &[&str]); 4] = [
        ("T39", "all", 10, 10, &["default/old-0", "default/old-1"]),
        ("single", "single", 10, 10, &["default/old-1"]),
        (
            "the group's priority, though higher",
            "single",
            100,
            10,
            &[],
        ),
        (
            "the group's priority, though lower",
            "single",
            10,
            1000,
            &["default/old-1"],
        ),
    ];
    for (case, mode, priority, of_pods, expected) in cases {
        let mut scene = Scene::new();
        scene.node("a", "2", "a");
        scene.node("b", "2", "a");
        old_group(&mut scene, mode, priority, of_pods);
        scene.group(important("train", 1));
        important_pods(&mut scene, "train", 1, "2");
        let found = scene.preempted().0;
        if mode == "single" && !expected.is_empty() {
            assert_eq!(found.len(), 1, "{case}: {found:?}");
        } else {
            assert_eq!(found, expected, "{case}");
        }
    }
    // T38: of equal priority, a pod without a group is less important than one of a group.
    let mut scene = Scene::new();
    scene.node("a", "4", "a");
    scene.running("alone", "a", "2", 10);
    let mut old = group("old", 1);
    old["spec"]["priority"] = json!(10);
    scene.group(old);
    scene.member_on("old-0", ("old", 10), "a", "2");
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(scene.preempted().0, ["default/alone"], "T38");
}

/// T43, T45, T46: victims that still terminate count with the priority of their group.
#[test]
fn s7_062_s7_063_an_ongoing_preemption_keeps_the_nominations() {
    for (priority, of_pod, is_ongoing) in [(10, 10, true), (10, 500, true), (200, 10, false)] {
        let mut scene = Scene::new();
        scene.node("a", "2", "a");
        let mut old = group("old", 1);
        old["spec"]["priority"] = json!(priority);
        scene.group(old);
        let mut ending = pod("old-0", "old", "2");
        ending["spec"]["nodeName"] = json!("a");
        ending["spec"]["priority"] = json!(of_pod);
        ending["metadata"]["deletionTimestamp"] = json!("1970-01-01T01:00:00Z");
        ending["status"] = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler" }] });
        scene.pod("old-0", Some(ending));
        scene.group(important("train", 1));
        let mut waits = pod("train-0", "train", "2");
        waits["spec"]["priority"] = json!(100);
        waits["status"] = json!({ "nominatedNodeName": "a" });
        scene.pod("train-0", Some(waits));
        let attempts = scene.attempts();
        let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
            panic!("{attempts:?}");
        };
        assert!(rejected.victims.is_empty());
        assert_eq!(
            !rejected.clears_nomination, is_ongoing,
            "{priority} {of_pod}"
        );
        let GroupOutcome::Unschedulable(message) = &scene.outcomes()[0] else {
            panic!();
        };
        let ongoing = "pod group preemption: ongoing preemption on nominated nodes";
        assert_eq!(message.ends_with(ongoing), is_ongoing, "{message}");
    }
}
