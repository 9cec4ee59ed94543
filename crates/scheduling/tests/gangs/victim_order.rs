//! Which of several victims a gang evicts, where more than one would do (S7-065), and what is checked at the end.

use crate::placing::{important, important_pods};
use crate::{Scene, group, pod};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A group that is evicted as a whole, with pods on nodes that started so many minutes after 1970.
pub(crate) fn atomic(scene: &mut Scene, name: &str, cpu: &str, pods: &[(&str, u32)]) {
    let mut all = group(name, 1);
    all["spec"]["disruptionMode"] = json!({ "all": {} });
    all["spec"]["priority"] = json!(10);
    scene.group(all);
    for (index, (node, minute)) in pods.iter().enumerate() {
        let name_of_pod = format!("{name}-{index}");
        let mut bound = pod(&name_of_pod, name, cpu);
        bound["spec"]["nodeName"] = json!(node);
        bound["spec"]["priority"] = json!(10);
        bound["status"] = json!({ "startTime": format!("1970-01-01T00:{minute:02}:00Z") });
        scene.pod(&name_of_pod, Some(bound));
    }
}

/// The victims of a pod of two cpus. Each of the two nodes has four.
fn victims(fill: impl FnOnce(&mut Scene)) -> Vec<String> {
    let mut scene = Scene::new();
    for name in ["a", "b"] {
        scene.node(name, "4", "a");
    }
    fill(&mut scene);
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    scene.preempted().0
}

#[test]
fn s7_065_the_smaller_group_is_evicted_first() {
    let found = victims(|scene| {
        scene.running("important", "b", "4", 500);
        atomic(scene, "small", "2", &[("a", 0)]);
        atomic(scene, "large", "1", &[("a", 1), ("a", 1)]);
    });
    assert_eq!(found, ["default/small-0"]);
}

/// A group is as old as its oldest pod.
#[test]
fn s7_065_of_equal_groups_the_younger_one_is_evicted_first() {
    let found = victims(|scene| {
        atomic(scene, "young", "2", &[("a", 3), ("b", 3)]);
        atomic(scene, "old", "2", &[("a", 5), ("b", 1)]);
    });
    assert_eq!(found, ["default/young-0", "default/young-1"]);
}

/// The pods of the node that no member needs are put back, and one of them rejects the member in its zone.
#[test]
fn s7_069_nothing_is_evicted_if_the_members_do_not_fit_beside_those_that_are_put_back() {
    let preempted = |label: &str| {
        let mut scene = Scene::new();
        for name in ["a", "b"] {
            scene.node(name, "2", "zone");
        }
        scene.running("in-the-way", "a", "2", 0);
        let mut other = pod("other", "", "2");
        other["metadata"]["labels"] = json!({ "app": label });
        other["spec"]["nodeName"] = json!("b");
        scene.pod("other", Some(other));
        scene.group(important("train", 1));
        let mut member: Value = pod("train-0", "train", "2");
        member["spec"]["priority"] = json!(100);
        member["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "rack",
                "labelSelector": { "matchLabels": { "app": "hostile" } } }] } });
        scene.pod("train-0", Some(member));
        scene.preempted().0
    };
    assert_eq!(preempted("friendly"), ["default/in-the-way"]);
    assert_eq!(preempted("hostile"), Vec::<String>::new());
}

/// k/k#106780 for groups: where a victim does not end, no further pod is evicted, nor a part of a group with pods there.
#[test]
fn a_gang_whose_victim_does_not_end_takes_none_of_its_neighbours_and_no_part_of_their_group() {
    let mut scene = Scene::new();
    for name in ["a", "b", "c"] {
        scene.node(name, "4", "a");
    }
    scene.running("stuck", "a", "2", 1);
    atomic(&mut scene, "whole", "2", &[("a", 0), ("b", 0)]);
    scene.running("important", "b", "2", 500);
    scene.running("single", "c", "4", 20);
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(scene.preempted().0, ["default/stuck"]);
    let mut ending = scene.pods["stuck"].clone();
    ending["metadata"]["deletionTimestamp"] = json!(scene.now);
    scene.pod("stuck", Some(ending));
    scene.pass(SignedDuration::from_secs(60));
    let now = scene.now;
    scene.scheduler.leave_stuck_victims(now);
    scene.pass(SignedDuration::from_secs(20));
    assert_eq!(scene.preempted().0, ["default/single"]);
}
