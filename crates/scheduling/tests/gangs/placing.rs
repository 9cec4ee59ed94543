//! Pods of a group are placed all at once or not at all.

use crate::{Scene, group, pod, read};
use evictd_preemption::Action;
use evictd_scheduling::{Delta, Event, GroupOutcome, Outcome, Pool};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// S5-096: held back until as many as are needed at once are there, and taken out of the queue as one.
#[test]
fn s5_096_a_gang_waits_for_its_pods_and_is_placed_as_one() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.pods("train", 3, "1");
    assert_eq!(
        scene.placed(),
        BTreeMap::new(),
        "there is no group of that name"
    );
    scene.group(group("train", 4));
    assert_eq!(scene.placed(), BTreeMap::new(), "a pod is missing");
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 3);
    scene.pod("train-3", Some(pod("train-3", "train", "1")));
    assert_eq!(scene.placed().len(), 4);
    assert_eq!(scene.requested("one"), 4000);
    // Those that come later belong to a gang that is there already.
    scene.pod("train-4", Some(pod("train-4", "train", "1")));
    assert_eq!(scene.placed().len(), 1);
}

#[test]
fn no_pod_of_a_gang_is_placed_if_too_few_fit() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.group(group("train", 3));
    scene.pods("train", 3, "2");
    let attempts = scene.attempts();
    assert_eq!(attempts.len(), 3, "all are told");
    for attempt in attempts {
        let Outcome::Unschedulable(rejected) = attempt.outcome else {
            panic!("{:?}", attempt.outcome);
        };
        // S7-044: a pod that does not fit has its own reason, and the others that of the group.
        let message = match &*attempt.key {
            "train-2" => "0/1 nodes are available: 1 Insufficient cpu.",
            _ => {
                "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims \
                 found for incoming preemptor"
            }
        };
        assert_eq!(rejected.message, message);
        assert!(rejected.plugins.contains("NodeResourcesFit"));
    }
    assert_eq!(scene.requested("one"), 0, "nothing is held for them");
    let news = scene.scheduler.take_group_results();
    assert!(matches!(news[0].outcome, GroupOutcome::Unschedulable(_)));
    scene.node("two", "2", "a");
    assert_eq!(scene.placed().len(), 3);
    let news = scene.scheduler.take_group_results();
    assert_eq!(news.last().unwrap().outcome, GroupOutcome::Placed);
}

#[test]
fn a_gang_places_as_many_pods_as_fit() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.group(group("train", 2));
    scene.pods("train", 6, "1");
    // Two begin as soon as they are there.
    assert_eq!(scene.placed().len(), 4);
    assert_eq!(scene.scheduler.queue().len(), 2);
    scene.node("two", "4", "a");
    assert_eq!(scene.placed().len(), 2);
}

#[test]
fn a_group_that_is_not_a_gang_is_placed_pod_by_pod() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.group(
        json!({ "metadata": { "name": "web", "namespace": "default" },
        "spec": { "schedulingPolicy": { "basic": {} } } }),
    );
    scene.pods("web", 3, "2");
    assert_eq!(scene.placed().len(), 2);
}

/// S7-049
#[test]
fn a_failed_binding_of_a_gang_pod_is_repeated_alone() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.group(group("train", 3));
    scene.pods("train", 3, "1");
    assert_eq!(scene.placed().len(), 3);
    let now = scene.now;
    scene.scheduler.bind_failed(now, &Arc::from("train-1"));
    assert_eq!(scene.requested("one"), 2000);
    scene.group(group("train", 3));
    assert_eq!(
        scene.placed(),
        BTreeMap::from([("train-1".to_owned(), "one".to_owned())])
    );
}

#[test]
fn all_pods_of_a_gang_are_in_one_topology_domain() {
    let mut scene = Scene::new();
    scene.node("a1", "2", "a");
    scene.node("b1", "2", "b");
    scene.node("b2", "2", "b");
    scene.node("c1", "2", "");
    let mut together = group("train", 3);
    together["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": "rack" }] });
    scene.group(together);
    scene.pods("train", 3, "1");
    let placed = scene.placed();
    assert_eq!(placed.len(), 3);
    assert!(
        placed.values().all(|node| node.starts_with('b')),
        "{placed:?}"
    );
    // S7-090: the fourth must go to the others, and the fifth finds no room there.
    scene.pod("train-3", Some(pod("train-3", "train", "1")));
    assert!(scene.placed()["train-3"].starts_with('b'));
    scene.pod("train-4", Some(pod("train-4", "train", "1")));
    assert_eq!(scene.placed(), BTreeMap::new());
}

pub(crate) fn important(name: &str, min_count: i32) -> Value {
    let mut group = group(name, min_count);
    group["spec"]["priority"] = json!(100);
    group
}

/// Pods of an important group, which have its priority (S7-036).
pub(crate) fn important_pods(scene: &mut Scene, group: &str, count: usize, cpu: &str) {
    for index in 0..count {
        let name = format!("{group}-{index}");
        let mut new = pod(&name, group, cpu);
        new["spec"]["priority"] = json!(100);
        scene.pod(&name, Some(new));
    }
}

/// S4-035, S4-038: all pods of lower priority are removed tentatively. Those whose room is not needed are put back, the most
/// important first.
#[test]
fn s4_035_s4_038_pods_of_the_lowest_priority_are_evicted_for_a_whole_gang() {
    let mut scene = Scene::new();
    for (node, low, high) in [("one", 1, 3), ("two", 1, 3)] {
        scene.node(node, "4", "a");
        scene.running(&format!("low-{node}"), node, "2", low);
        scene.running(&format!("high-{node}"), node, "2", high);
    }
    scene.running("far", "one", "0", 1);
    scene.group(important("train", 2));
    important_pods(&mut scene, "train", 2, "2");
    let attempts = scene.attempts();
    let (mut nodes, mut gone) = (Vec::new(), Vec::new());
    for attempt in &attempts {
        let Outcome::Unschedulable(rejected) = &attempt.outcome else {
            panic!("{:?}", attempt.outcome);
        };
        nodes.push(rejected.nominated.clone().unwrap());
        for action in &rejected.actions {
            let Action::Delete { pod, .. } = action else {
                panic!("{action:?}");
            };
            gone.push(pod.clone());
        }
    }
    nodes.sort();
    gone.sort();
    assert_eq!(nodes, ["one", "two"]);
    assert_eq!(gone, ["default/low-one", "default/low-two"]);
    assert_eq!(
        scene.requested("one"),
        4000,
        "until they are gone nothing changes"
    );
    // While they terminate, no other pod is evicted.
    for name in ["low-one", "low-two"] {
        let mut ending = scene.pods[name].clone();
        ending["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:01:00Z");
        ending["status"] = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler" }] });
        scene.pod(name, Some(ending));
    }
    for attempt in &attempts {
        let mut nominated = scene.pods[&*attempt.key].clone();
        nominated["status"]["nominatedNodeName"] = json!("one");
        scene.pod(&attempt.key, Some(nominated));
    }
    scene.group(important("train", 2));
    // S7-062.
    assert!(
        scene
            .group_message()
            .ends_with("ongoing preemption on nominated nodes")
    );
    scene.pod("low-one", None);
    scene.pod("low-two", None);
    assert_eq!(scene.placed().len(), 2);
}

/// S4-036: the priority of the group counts, and a group with mode all is evicted as a whole.
#[test]
fn s4_036_a_group_with_disruption_mode_all_is_one_victim() {
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.node("two", "2", "a");
    let mut whole = group("old", 2);
    whole["spec"]["disruptionMode"] = json!({ "all": {} });
    whole["spec"]["priority"] = json!(5);
    scene.group(whole.clone());
    for (name, node) in [("old-0", "one"), ("old-1", "two")] {
        let mut bound = pod(name, "old", "2");
        bound["spec"]["nodeName"] = json!(node);
        bound["spec"]["priority"] = json!(1000);
        scene.pod(name, Some(bound));
    }
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    let attempts = scene.attempts();
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    assert_eq!(rejected.victims.len(), 2, "both, though one would do");
    let news = scene.scheduler.take_group_results();
    let gone = news
        .iter()
        .find(|result| result.outcome == GroupOutcome::Preempted { for_group: true });
    assert_eq!(gone.unwrap().group.metadata().name, "old");
    // No pod of a more important group is evicted, whatever its own priority is.
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    whole["spec"]["priority"] = json!(500);
    scene.group(whole);
    let mut bound = pod("old-0", "old", "2");
    bound["spec"]["nodeName"] = json!("one");
    scene.pod("old-0", Some(bound));
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    let message = scene.group_message();
    assert!(
        message.ends_with("No preemption victims found for incoming preemptor"),
        "{message}"
    );
}

/// S4-037.
#[test]
fn s4_037_s7_061_pods_that_never_preempt_keep_their_gang_from_preempting() {
    let mut scene = Scene::new();
    scene.node("one", "2", "a");
    scene.running("low", "one", "2", 1);
    scene.group(important("train", 2));
    for name in ["train-0", "train-1"] {
        let mut never = pod(name, "train", "1");
        never["spec"]["preemptionPolicy"] = json!("Never");
        never["spec"]["priority"] = json!(100);
        scene.pod(name, Some(never));
    }
    let message = scene.group_message();
    assert!(
        message.ends_with("not eligible due to preemptionPolicy=Never."),
        "{message}"
    );
}

/// S4-039, S7-029, S7-039, S7-045: what does not fit beside the first pods of a gang preempts at once, but together with its group.
#[test]
fn s4_039_s7_029_pods_that_a_placed_gang_leaves_out_are_tried_again_at_once_and_preempt_then() {
    let mut scene = Scene::new();
    scene.node("one", "3", "a");
    scene.running("low", "one", "2", 1);
    scene.group(important("train", 1));
    // Both come while the group is gated by nothing but the missing room.
    important_pods(&mut scene, "train", 2, "1");
    let attempts = scene.attempts();
    let rejected: Vec<_> = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Unschedulable(rejected) => Some(rejected),
            _ => None,
        })
        .collect();
    let last = rejected.last().unwrap();
    assert_eq!(last.victims[0].0, "default/low");
    assert_eq!(last.nominated.as_deref(), Some("one"));
    let news = scene.scheduler.take_group_results();
    let GroupOutcome::Unschedulable(message) = &news.last().unwrap().outcome else {
        panic!("{news:?}");
    };
    assert_eq!(
        message,
        "pod group is unschedulable, pod group preemption found a placement for podgroup, preempting 1 victims"
    );
}

/// Budgets: those that allow it go first.
#[test]
fn a_pod_protected_by_a_budget_is_not_evicted_if_another_can_be() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    for (name, priority) in [("kept", 1), ("other", 2)] {
        let mut new = pod(name, "", "2");
        new["spec"]["nodeName"] = json!("one");
        new["spec"]["priority"] = json!(priority);
        new["metadata"]["labels"] = json!({ "app": name });
        scene.pod(name, Some(new));
    }
    let budget = read(json!({ "metadata": { "name": "b", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "kept" } } }, "status": { "disruptionsAllowed": 0 } }));
    scene.tell(&Event::PodDisruptionBudget(Delta {
        old: None,
        new: Some(budget),
    }));
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    let attempts = scene.attempts();
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    assert_eq!(rejected.victims[0].0, "default/other");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Two groups that each need more than half a cluster: never does one hold a part.
    #[test]
    fn no_gang_is_ever_placed_in_part(
        sizes in prop::collection::vec(1..7_usize, 1..5),
        nodes in prop::collection::vec(1..5_u8, 1..4),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
    ) {
        let mut scene = Scene::new();
        for (index, cpu) in nodes.iter().enumerate() {
            scene.node(&format!("node-{index}"), &cpu.to_string(), "a");
        }
        let mut coming = Vec::new();
        for (index, size) in sizes.iter().enumerate() {
            let name = format!("gang-{index}");
            scene.group(group(&name, i32::try_from(*size).unwrap()));
            coming.extend((0..*size).map(|index| (name.clone(), format!("{name}-{index}"))));
        }
        let mut placed: BTreeMap<String, usize> = BTreeMap::new();
        let mut order = order.into_iter();
        while !coming.is_empty() {
            let next = order.next().map_or(0, |index| index.index(coming.len()));
            let (group, name) = coming.swap_remove(next);
            scene.pod(&name, Some(pod(&name, &group, "1")));
            for pod in scene.placed().into_keys() {
                let (group, _) = pod.rsplit_once('-').unwrap();
                *placed.entry(group.to_owned()).or_default() += 1;
            }
            for (index, size) in sizes.iter().enumerate() {
                let count = placed.get(&format!("gang-{index}")).copied().unwrap_or(0);
                prop_assert!(count == 0 || count == *size, "{} of {}", count, size);
            }
        }
        // Whoever waits does not fit into what is left.
        let room: usize = nodes.iter().map(|cpu| usize::from(*cpu)).sum();
        let left = room - placed.values().sum::<usize>();
        for (index, size) in sizes.iter().enumerate() {
            if !placed.contains_key(&format!("gang-{index}")) {
                prop_assert!(*size > left, "{} fit into {}", size, left);
            }
        }
    }
}

#[test]
fn s5_099_the_time_that_a_pod_waits_for_its_group_does_not_count() {
    let mut scene = Scene::new();
    scene.node("one", "3", "a");
    scene.pods("train", 2, "1");
    let gated = scene.now;
    scene.group(group("train", 2));
    let arrived = scene.now;
    assert!(arrived > gated);
    scene.attempts();
    let bindings = scene.scheduler.bindings();
    let times: Vec<_> = bindings.map(|binding| binding.arrived).collect();
    assert_eq!(times, [Some(arrived); 2]);
}
