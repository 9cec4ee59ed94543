//! Trees of groups: composite groups, their readiness, and an attempt that places all or as many as must be (S7-110 to S7-125).

use crate::permits::{Scripted, wait};
use crate::{Scene, group, pod, read};
use evictd_placement::{Permit, Plugin};
use evictd_scheduling::{Change, Delta, Event, GroupOutcome, Pool};
use evictd_test_objects::{composite_pod_group, node, pod_group};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A composite group that needs so many of its groups.
pub(crate) fn composite(name: &str, least: i32, parent: &str) -> Value {
    composite_pod_group(name, least).child_of(parent).json()
}

pub(crate) fn leaf(name: &str, least: i32, parent: &str) -> Value {
    pod_group(name, least).child_of(parent).json()
}

fn in_one(mut group: Value, key: &str) -> Value {
    group["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": key }] });
    group
}

impl Scene {
    pub(crate) fn composite(&mut self, group: Value) {
        self.tell(&Event::CompositePodGroup(crate::added(group)));
    }

    fn delete_composite(&mut self, group: Value) {
        self.tell(&Event::CompositePodGroup(Delta {
            old: Some(read(group)),
            new: None,
        }));
    }

    /// A node in a zone and a rack.
    fn node_in(&mut self, name: &str, cpu: &str, (zone, rack): (&str, &str)) {
        let node = node(name).cpu(cpu).memory("4Gi");
        let node = node.label("zone", zone).label("rack", rack);
        self.tell(&Event::Change(Change::Node(crate::added(node))));
    }

    /// How many pods are placed now, how many are gated, and how many wait otherwise.
    fn counts(&mut self) -> (usize, usize, usize) {
        let placed = self.placed().len();
        let queue = self.scheduler.queue();
        let gated = queue.count(Pool::Gated);
        (placed, gated, queue.len() - gated)
    }

    /// Why a gated pod is not tried.
    fn gate(&self, pod: &str) -> String {
        let queue = self.scheduler.queue();
        queue.gate(queue.pod(pod).unwrap())
    }
}

const NO_VICTIMS: &str = "pod group preemption: No preemption victims found for incoming preemptor";

/// T63 to T66: the pods wait until the tree is there and enough of its groups have their pods.
#[test]
fn s7_112_s7_113_the_pods_of_a_tree_are_gated_until_its_root_is_ready() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.group(leaf("l", 2, "m"));
    scene.composite(composite("m", 1, "r"));
    scene.pods("l", 2, "2");
    assert_eq!(scene.counts(), (0, 2, 0), "T63");
    scene.composite(composite("r", 1, ""));
    assert_eq!(scene.counts(), (2, 0, 0), "T63");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 1, ""));
    scene.group(leaf("l", 2, "m"));
    scene.pods("l", 2, "2");
    assert_eq!(scene.counts(), (0, 2, 0), "T64");
    scene.composite(composite("m", 1, "r"));
    assert_eq!(scene.counts(), (2, 0, 0), "T64");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 2, ""));
    scene.group(leaf("l1", 2, "r"));
    scene.pods("l1", 2, "2");
    scene.pods("l2", 2, "2");
    assert_eq!(scene.counts(), (0, 4, 0), "T65");
    scene.group(leaf("l2", 2, "r"));
    assert_eq!(scene.counts(), (4, 0, 0), "T65");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 2, ""));
    scene.group(leaf("l1", 2, "r"));
    scene.group(leaf("l2", 2, "r"));
    scene.pods("l1", 2, "2");
    scene.pods("l2", 1, "2");
    assert_eq!(scene.counts(), (0, 3, 0), "T66");
    let waits = scene.gate("l2-0");
    let quorum = "waiting for composite pod group \"r\" tree to meet quorum: it needs 2 ready groups and has 1";
    assert_eq!(waits, quorum);
    scene.pod("l2-1", Some(pod("l2-1", "l2", "2")));
    assert_eq!(scene.counts(), (4, 0, 0), "T66");
}

/// T67 to T70.
#[test]
fn s7_114_a_tree_is_woken_by_its_groups_and_by_room() {
    let tree = |scene: &mut Scene| {
        scene.composite(composite("r", 1, ""));
        scene.composite(composite("m", 1, "r"));
        scene.group(leaf("l", 2, "m"));
    };
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    tree(&mut scene);
    scene.pods("l", 1, "2");
    assert_eq!(scene.counts(), (0, 1, 0), "T67");
    scene.group(leaf("l", 1, "m"));
    assert_eq!(scene.counts(), (1, 0, 0), "T67");

    // T08 in a tree: a pod that another client has bound.
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    tree(&mut scene);
    scene.pods("l", 1, "2");
    let mut bound = pod("l-runs", "l", "2");
    bound["spec"]["nodeName"] = json!("one");
    scene.pod("l-runs", Some(bound));
    assert_eq!(scene.counts(), (1, 0, 0));

    // A condition of a group wakes no pod.
    let mut scene = Scene::new();
    tree(&mut scene);
    scene.node("one", "1", "a");
    scene.pods("l", 2, "2");
    assert_eq!(scene.counts(), (0, 0, 2));
    let changed = |object: Value| Delta {
        old: Some(read(object.clone())),
        new: Some(read(object)),
    };
    scene.tell(&Event::PodGroup(changed(leaf("l", 2, "m"))));
    assert!(scene.attempts().is_empty());

    let mut scene = Scene::new();
    tree(&mut scene);
    scene.pods("l", 2, "2");
    assert_eq!(scene.counts(), (0, 0, 2), "T68");
    scene.node("one", "8", "a");
    assert_eq!(scene.counts(), (2, 0, 0), "T68");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.running("other", "one", "8", 0);
    tree(&mut scene);
    scene.pods("l", 2, "2");
    assert_eq!(scene.counts(), (0, 0, 2), "T70");
    scene.pod("other", None);
    assert_eq!(scene.counts(), (2, 0, 0), "T70");
}

#[test]
fn s7_110_a_basic_composite_group_needs_one_of_its_groups() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    let mut basic = composite("r", 1, "");
    basic["spec"]["schedulingPolicy"] = json!({ "basic": {} });
    scene.composite(basic);
    scene.group(leaf("l1", 1, "r"));
    scene.group(leaf("l2", 2, "r"));
    scene.pods("l2", 1, "2");
    assert_eq!(scene.counts(), (0, 1, 0));
    scene.pods("l1", 1, "2");
    assert_eq!(scene.counts().0, 1);
}

/// A finalizer keeps the object until its last group is deleted.
#[test]
fn s7_125_a_composite_group_that_is_being_deleted_still_has_its_groups() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    let group = composite("r", 1, "");
    let mut terminating = group.clone();
    terminating["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    terminating["metadata"]["finalizers"] = json!(["example.com/groups"]);
    scene.composite(group.clone());
    scene.tell(&Event::CompositePodGroup(Delta {
        old: Some(read(group)),
        new: Some(read(terminating)),
    }));
    scene.group(leaf("l", 1, "r"));
    scene.pods("l", 1, "2");
    assert_eq!(scene.counts(), (1, 0, 0));
}

/// T71 to T73: objects that are deleted and created again.
#[test]
fn s7_112_a_tree_whose_parent_is_deleted_waits_until_it_is_back() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 1, ""));
    scene.composite(composite("m", 1, "r"));
    scene.group(leaf("l", 2, "m"));
    scene.pods("l", 2, "2");
    scene.delete_composite(composite("m", 1, "r"));
    let gone = "pod group \"default/l\": its CompositePodGroup default/m does not exist in scheduling.k8s.io/v1alpha3";
    assert_eq!(scene.messages()["l-0"], gone, "T71");
    assert_eq!(scene.counts().0, 0, "T71");
    scene.composite(composite("m", 1, "r"));
    assert_eq!(scene.counts(), (2, 0, 0), "T71");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 2, ""));
    scene.group(leaf("l1", 1, "r"));
    scene.pods("l1", 1, "2");
    scene.delete_composite(composite("r", 2, ""));
    scene.group(leaf("l2", 1, "r"));
    scene.pods("l2", 1, "2");
    assert_eq!(scene.counts(), (0, 2, 0), "T72");
    scene.composite(composite("r", 2, ""));
    assert_eq!(scene.counts(), (2, 0, 0), "T72");

    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("r", 3, ""));
    for name in ["l1", "l2"] {
        scene.group(leaf(name, 1, "r"));
        scene.pods(name, 1, "2");
    }
    let deleted = Delta {
        old: Some(read(leaf("l1", 1, "r"))),
        new: None,
    };
    scene.tell(&Event::PodGroup(deleted));
    assert_eq!(scene.counts(), (0, 2, 0), "T73");
    let waits = scene.gate("l1-0");
    let gone = "its PodGroup default/l1 does not exist in scheduling.k8s.io/v1beta1";
    assert_eq!(waits, gone);
}

/// T74, T75.
#[test]
fn s7_111_s7_117_s7_118_a_child_fails_alone_as_long_as_its_parent_has_enough_others() {
    let tree = |least: i32, sizes: [&str; 2]| {
        let mut scene = Scene::new();
        scene.node("one", "4", "a");
        scene.composite(composite("r", least, ""));
        for (name, cpu) in ["l1", "l2"].into_iter().zip(sizes) {
            scene.pods(name, 1, cpu);
            scene.group(leaf(name, 1, "r"));
        }
        scene
    };
    let mut scene = tree(2, ["1", "9"]);
    let of_root =
        format!("minCount (2) cannot be satisfied: 1 scheduled, 0 remaining, {NO_VICTIMS}");
    let of_l2 = format!("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining, {NO_VICTIMS}");
    let messages = scene.messages();
    assert_eq!(messages["l1-0"], of_root, "T74");
    assert_eq!(
        messages["l2-0"],
        "0/1 nodes are available: 1 Insufficient cpu."
    );
    let results = scene.results();
    let failed = |message: &str| GroupOutcome::Unschedulable(message.to_owned());
    assert_eq!(results["l1"], failed(&of_root), "T74");
    assert_eq!(results["l2"], failed(&of_l2), "T74");
    // Unlike kube-scheduler 1.37: the root has a condition, which names the child that is short (S7-111).
    let short = "PodGroup default/l2: minCount (1) cannot be satisfied: 0 scheduled, 0 remaining";
    assert_eq!(results["r"], failed(&format!("{of_root} ({short})")));
    assert_eq!(scene.requested("one"), 0);

    let mut scene = tree(1, ["9", "1"]);
    assert_eq!(scene.counts(), (1, 0, 1), "T75");
    let results = scene.results();
    assert_eq!(results["l2"], GroupOutcome::Placed, "T75");
    assert_eq!(results["l1"], failed(&of_l2), "T75");
    assert_eq!(results["r"], GroupOutcome::Placed);
}

/// In kube-scheduler a tree that was placed can get no further pod, because its other groups are counted from zero.
#[test]
fn s7_116_groups_that_were_placed_before_count() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("r", 2, ""));
    for name in ["l1", "l2"] {
        scene.group(leaf(name, 1, "r"));
        scene.pods(name, 1, "1");
    }
    assert_eq!(scene.counts(), (2, 0, 0));
    scene.pod("l1-1", Some(pod("l1-1", "l1", "1")));
    assert_eq!(scene.counts(), (1, 0, 0));
    scene.results();
    // One that does not fit leaves the conditions as they are.
    scene.pod("l1-2", Some(pod("l1-2", "l1", "2")));
    assert_eq!(scene.counts(), (0, 0, 1));
    assert_eq!(scene.results(), BTreeMap::new());
}

/// kube-scheduler would give all four places to the first group.
#[test]
fn s7_115_each_group_gets_what_it_needs_before_any_gets_more() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("r", 2, ""));
    scene.pods("l1", 4, "1");
    scene.pods("l2", 2, "1");
    scene.group(leaf("l1", 1, "r"));
    scene.group(leaf("l2", 2, "r"));
    let placed: Vec<String> = scene.placed().into_keys().collect();
    assert_eq!(placed, ["l1-0", "l1-1", "l2-0", "l2-1"]);
    // A group that is not needed comes before the further pods of one that is.
    let mut scene = Scene::new();
    scene.node("one", "3", "a");
    scene.composite(composite("r", 1, ""));
    scene.pods("l1", 3, "1");
    scene.pods("l2", 2, "1");
    scene.group(leaf("l2", 2, "r"));
    scene.group(leaf("l1", 1, "r"));
    let placed: Vec<String> = scene.placed().into_keys().collect();
    assert_eq!(placed, ["l1-0", "l2-0", "l2-1"]);
}

/// Four nodes in two zones of two racks each, with room for so many pods.
fn racks(rooms: [&str; 4]) -> Scene {
    let mut scene = Scene::new();
    for (index, cpu) in rooms.into_iter().enumerate() {
        let zone = if index < 2 { "east" } else { "west" };
        let rack = format!("rack-{index}");
        scene.node_in(&format!("n{index}"), cpu, (zone, &rack));
    }
    scene
}

#[test]
fn s7_119_each_composite_group_has_a_domain_inside_that_of_its_parent() {
    // Each group needs a rack, and both racks must be in one zone. Only the west has two racks of two.
    let mut scene = racks(["3", "1", "2", "2"]);
    scene.composite(in_one(composite("r", 2, ""), "zone"));
    for name in ["l1", "l2"] {
        scene.pods(name, 2, "1");
        scene.group(in_one(leaf(name, 2, "r"), "rack"));
    }
    let placed = scene.placed();
    assert_eq!(placed.len(), 4);
    assert_eq!(placed["l1-0"], placed["l1-1"]);
    assert_eq!(placed["l2-0"], placed["l2-1"]);
    let nodes: Vec<&String> = placed.values().collect();
    assert!(
        nodes.iter().all(|node| ["n2", "n3"].contains(&&***node)),
        "{placed:?}"
    );
    // Pods that have a node fix the zone of those that come later.
    scene.node_in("n4", "9", ("east", "rack-4"));
    scene.group(in_one(leaf("l3", 1, "r"), "rack"));
    scene.pods("l3", 1, "1");
    assert_eq!(scene.counts(), (0, 0, 1));
    scene.node_in("n5", "1", ("west", "rack-5"));
    assert_eq!(scene.placed()["l3-0"], "n5");

    let mut scene = racks(["3", "1", "2", "1"]);
    scene.composite(in_one(composite("r", 2, ""), "zone"));
    for name in ["l1", "l2"] {
        scene.pods(name, 2, "1");
        scene.group(in_one(leaf(name, 2, "r"), "rack"));
    }
    assert_eq!(scene.counts(), (0, 0, 4));
    let Some(GroupOutcome::Unschedulable(message)) = scene.results().remove("r") else {
        panic!("the root has no condition");
    };
    let start = "0/2 placements are available, first placement status: minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert!(message.starts_with(start), "{message}");
    assert!(
        message.contains("(PodGroup default/l2: 0/2 placements are available"),
        "{message}"
    );
}

/// The more pods of the whole tree fit, the better.
#[test]
fn s7_119_of_several_domains_the_one_with_most_pods_of_the_tree_is_taken() {
    let mut scene = racks(["2", "1", "2", "2"]);
    scene.composite(in_one(composite("r", 1, ""), "zone"));
    for name in ["l1", "l2"] {
        scene.pods(name, 2, "1");
        scene.group(in_one(leaf(name, 2, "r"), "rack"));
    }
    let placed = scene.placed();
    assert_eq!(placed.len(), 4, "{placed:?}");
    // If all fit in both, the domain that is fuller then is taken.
    let mut scene = racks(["3", "3", "2", "2"]);
    scene.composite(in_one(composite("r", 2, ""), "zone"));
    for name in ["l1", "l2"] {
        scene.pods(name, 2, "1");
        scene.group(in_one(leaf(name, 2, "r"), "rack"));
    }
    let placed = scene.placed();
    assert_eq!(placed.len(), 4, "{placed:?}");
    let mut nodes = placed.values();
    assert!(nodes.all(|node| node == "n2" || node == "n3"), "{placed:?}");
}

/// The first domain has room for one of the groups, and the second one for none.
#[test]
fn s7_119_the_result_of_the_first_domain_is_reported() {
    let mut scene = racks(["1", "0", "0", "0"]);
    scene.composite(in_one(composite("r", 2, ""), "zone"));
    for name in ["l1", "l2"] {
        scene.pods(name, 1, "1");
        scene.group(leaf(name, 1, "r"));
    }
    let messages = scene.messages();
    let start = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert!(messages["l1-0"].starts_with(start), "{messages:?}");
}

#[test]
fn s7_120_s7_121_the_root_decides_about_priority_and_preemption() {
    let important = |mut object: Value| {
        object["spec"]["priority"] = json!(100);
        object
    };
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.running("cheap", "one", "1", 0);
    scene.running("dear", "one", "1", 50);
    scene.composite(important(composite("r", 2, "")));
    for name in ["l1", "l2"] {
        // Its priority is not that of the root, which kube-scheduler 1.37 does not notice either.
        scene.group(leaf(name, 1, "r"));
        let name_of_pod = format!("{name}-0");
        let new = important(pod(&name_of_pod, name, "1"));
        scene.pod(&name_of_pod, Some(new));
    }
    let messages = scene.messages();
    let found = "pod group preemption found a placement for podgroup, preempting 2 victims";
    assert!(messages["l2-0"].ends_with(found), "{messages:?}");

    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.composite(important(composite("r", 2, "")));
    for name in ["l1", "l2"] {
        scene.group(leaf(name, 1, "r"));
        scene.pods(name, 1, "1");
    }
    let error = "all pods in a single pod group should have the same priority as the pod group's priority, got 0 and 100";
    assert_eq!(scene.messages()["l2-0"], error);
    let results = scene.results();
    for name in ["r", "l1", "l2"] {
        assert_eq!(results[name], GroupOutcome::Error(error.to_owned()));
    }
}

#[test]
fn s7_122_no_pod_of_a_tree_is_bound_before_all_are_permitted() {
    let plugin = Scripted::default();
    let shared: Arc<dyn Plugin> = Arc::new(plugin.clone());
    let mut scene = Scene::with(|framework| framework.permits.push(shared));
    scene.node("one", "4", "a");
    plugin.says("l2-0", wait(5));
    scene.composite(composite("r", 1, ""));
    for name in ["l1", "l2"] {
        scene.pods(name, 1, "1");
        scene.group(leaf(name, 1, "r"));
        scene.pass(jiff::SignedDuration::ZERO);
    }
    // The first group is placed alone, and the other one waits.
    assert_eq!(scene.placed().len(), 0);
    plugin.says("l2-0", Permit::Allow);
    scene.touch();
    assert_eq!(scene.placed().len(), 2);
    let results = scene.results();
    for name in ["r", "l1", "l2"] {
        assert_eq!(results[name], GroupOutcome::Placed, "{name}");
    }
}

#[test]
fn s7_123_a_cycle_and_a_tree_that_is_too_deep_or_too_large_are_invalid() {
    let invalid = |scene: &mut Scene| {
        let results = scene.results().into_iter();
        let invalid = results.filter_map(|(name, outcome)| match outcome {
            GroupOutcome::Invalid(message) => Some((name, message)),
            _ => None,
        });
        invalid.collect::<BTreeMap<String, String>>()
    };
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("a", 1, "b"));
    assert_eq!(invalid(&mut scene), BTreeMap::new());
    scene.composite(composite("b", 1, "a"));
    let found = invalid(&mut scene);
    assert_eq!(found.len(), 2);
    assert_eq!(
        found["a"],
        "CompositePodGroup default/a is an ancestor of itself: default/a -> default/b -> default/a"
    );
    scene.group(leaf("l", 1, "a"));
    scene.pods("l", 1, "1");
    assert_eq!(scene.counts(), (0, 1, 0));
    let waits = scene.gate("l-0");
    assert_eq!(waits, found["a"]);

    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    for (name, parent) in [("a", ""), ("b", "a"), ("c", "b")] {
        scene.composite(composite(name, 1, parent));
    }
    scene.group(leaf("l", 1, "c"));
    scene.pods("l", 1, "1");
    assert_eq!(scene.counts(), (1, 0, 0), "four levels are allowed");
    assert_eq!(invalid(&mut scene), BTreeMap::new());
    scene.composite(composite("d", 1, "c"));
    let deep = "the tree of CompositePodGroup default/d has more than 4 levels of groups";
    assert_eq!(invalid(&mut scene)["d"], deep);
    scene.group(leaf("deep", 1, "d"));
    scene.pods("deep", 1, "1");
    assert_eq!(scene.counts(), (0, 1, 0));

    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("r", 1, ""));
    for index in 0..1000 {
        scene.group(leaf(&format!("l{index}"), 1, "r"));
    }
    scene.pods("l0", 1, "1");
    let large = "composite pod group \"default/r\": the tree has more than 1000 groups";
    assert_eq!(scene.messages()["l0-0"], large);
}

/// A group leaves a cycle, in which it was ready only because it was above its parent.
#[test]
fn s7_123_readiness_in_a_cycle_does_not_count_for_a_later_parent() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.composite(composite("a", 1, "b"));
    scene.composite(composite("b", 1, "a"));
    scene.composite(composite("d", 1, ""));
    scene.group(leaf("l", 1, "a"));
    scene.pods("l", 1, "2");
    scene.pod("l-0", None);
    scene.tell(&Event::CompositePodGroup(Delta {
        old: Some(read(composite("a", 1, "b"))),
        new: Some(read(composite("a", 1, "d"))),
    }));
    scene.group(leaf("x", 2, "d"));
    scene.pods("x", 1, "2");
    assert_eq!(scene.counts(), (0, 1, 0));
    let waits = scene.gate("x-0");
    assert!(
        waits.ends_with("it needs 1 ready groups and has 0"),
        "{waits}"
    );
}

/// In kube-scheduler 1.37 they collide.
#[test]
fn s7_124_groups_of_both_kinds_may_have_one_name() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("g", 1, ""));
    scene.group(leaf("g", 2, "g"));
    scene.pods("g", 2, "1");
    assert_eq!(scene.counts(), (2, 0, 0));
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.composite(composite("g", 2, ""));
    scene.group(group("g", 2));
    scene.pods("g", 2, "1");
    assert_eq!(scene.counts(), (2, 0, 0), "it has no parent");
}
