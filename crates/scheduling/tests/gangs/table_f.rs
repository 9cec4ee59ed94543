//! Cases of the table of upstream's tests that the other files do not hold, and the rows of groups that belong to them.

use crate::placing::{important, important_pods};
use crate::rows::{basic, in_rack, scenario_node};
use crate::{Scene, added, group, pod, read};
use evictd_preemption::Action;
use evictd_scheduling::{Change, Delta, Event, GroupOutcome, Outcome, Pool};
use serde_json::{Value, json};

/// Two pods of a group of three, which wait for the third.
fn gated() -> Scene {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.group(group("g", 3));
    scene.pods("g", 2, "1");
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 2);
    scene
}

#[test]
fn s7_025_t06_t07_t11_what_wakes_a_gated_group() {
    let mut scene = gated();
    scene.pod("g-2", Some(pod("g-2", "g", "1")));
    assert_eq!(scene.placed().len(), 3, "T06");

    let mut scene = gated();
    let mut elsewhere = pod("other", "g", "1");
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    scene.pod("other", Some(elsewhere));
    assert!(scene.attempts().is_empty(), "T07");
    assert_eq!(scene.scheduler.queue().incomplete(), 1, "T07");

    let mut scene = gated();
    scene.group(group("h", 5));
    scene.group(group("h", 1));
    assert_eq!(scene.scheduler.queue().count(Pool::Gated), 2, "T11");
}

/// The pods of the group with these sizes, tried on one node of 4 cores.
fn tried(min_count: i32, sizes: &[&str]) -> Scene {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    for (index, cpu) in sizes.iter().enumerate() {
        let name = format!("g-{index}");
        scene.pod(&name, Some(pod(&name, "g", cpu)));
    }
    scene.group(group("g", min_count));
    scene
}

/// T21 to T23, T29, T30: what becomes of the pods and of the condition.
#[test]
fn s7_044_s7_050_s7_051_t21_t22_t23_t29_t30_the_result_of_an_attempt() {
    let mut scene = tried(3, &["1", "1", "1"]);
    assert_eq!(scene.placed().len(), 3, "T21");
    assert_eq!(scene.outcomes(), [GroupOutcome::Placed], "T21");
    // T29: further pods are placed, and the condition stays true.
    scene.pod("g-3", Some(pod("g-3", "g", "1")));
    assert_eq!(scene.placed().len(), 1, "T29");
    assert_eq!(scene.outcomes(), [GroupOutcome::Placed], "T29");

    let mut scene = tried(4, &["1", "1", "1", "9"]);
    let of_group = "minCount (4) cannot be satisfied: 3 scheduled, 0 remaining";
    let messages = scene.messages();
    for pod in ["g-0", "g-1", "g-2"] {
        assert!(messages[pod].starts_with(of_group), "T22: {messages:?}");
    }
    let outcomes = scene.outcomes();
    let is_failed = |outcome: &GroupOutcome| matches!(outcome, GroupOutcome::Unschedulable(message) if message.starts_with(of_group));
    assert!(outcomes.iter().all(is_failed), "T22: {outcomes:?}");
    assert_eq!(scene.scheduler.queue().count(Pool::Active), 0, "T22");

    // T23: the pod that is left out is tried again at once, so it is rejected twice in a row.
    let mut scene = tried(2, &["1", "9", "1"]);
    let attempts = scene.attempts();
    let placed = attempts
        .iter()
        .filter(|attempt| matches!(attempt.outcome, Outcome::Placed { .. }));
    assert_eq!(placed.count(), 2, "T23");
    let again = attempts.iter().filter(|attempt| &*attempt.key == "g-1");
    assert_eq!(again.count(), 2, "T23");
    assert_eq!(scene.outcomes()[0], GroupOutcome::Placed, "T23");
}

/// T24 to T26: after a preemption each pod that has a place then is nominated.
#[test]
fn s7_052_s7_071_t24_t25_t26_nominations_of_a_group_that_preempts() {
    let preempts = |free: &str, sizes: &[&str]| {
        let mut scene = Scene::new();
        scene.node("full", "2", "a");
        scene.running("low", "full", "2", 1);
        scene.node("free", free, "a");
        scene.group(important("train", 2));
        for (index, cpu) in sizes.iter().enumerate() {
            let name = format!("train-{index}");
            let mut member = pod(&name, "train", cpu);
            member["spec"]["priority"] = json!(100);
            scene.pod(&name, Some(member));
        }
        scene.preempted()
    };
    let low = vec!["default/low".to_owned()];
    let nodes = |names: &[&str]| {
        names
            .iter()
            .map(|name| (*name).to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        preempts("0", &["1", "1"]),
        (low.clone(), nodes(&["full", "full"])),
        "T24"
    );
    assert_eq!(
        preempts("2", &["2", "2"]),
        (low.clone(), nodes(&["free", "full"])),
        "T25"
    );
    // The one in the middle fits nowhere.
    let (victims, nominated) = preempts("2", &["2", "9", "2"]);
    assert_eq!((victims, nominated), (low, nodes(&["free", "full"])), "T26");
}

/// T27: no victims are looked for, so the nominations in the status of the pods stay (S5-109). With victims in sight they go.
#[test]
fn s7_044_s7_050_t27_a_group_that_may_not_preempt_keeps_old_nominations() {
    for (policy, keeps) in [("Never", true), ("PreemptLowerPriority", false)] {
        let mut scene = Scene::new().with_1_37();
        scene.node("one", "1", "a");
        let mut train = important("train", 3);
        train["spec"]["preemptionPolicy"] = json!(policy);
        scene.group(train);
        for name in ["train-0", "train-1", "train-2"] {
            let mut member = pod(name, "train", "9");
            member["spec"]["priority"] = json!(100);
            member["spec"]["preemptionPolicy"] = json!(policy);
            member["status"] = json!({ "nominatedNodeName": "one" });
            scene.pod(name, Some(member));
        }
        let attempts = scene.attempts();
        assert_eq!(attempts.len(), 3);
        for attempt in attempts {
            let Outcome::Unschedulable(rejected) = &attempt.outcome else {
                panic!("{attempt:?}");
            };
            assert_eq!(!rejected.clears_nomination, keeps, "{policy}");
            assert_eq!(rejected.nominated, None);
        }
        let outcomes = scene.outcomes();
        let is_unschedulable =
            |outcome: &GroupOutcome| matches!(outcome, GroupOutcome::Unschedulable(_));
        assert!(
            matches!(&outcomes[..], [one] if is_unschedulable(one)),
            "{outcomes:?}"
        );
    }
}

/// S7-035, T31: pods that disagree are an error of all. Then nothing is preempted, though there would be victims.
#[test]
fn s7_035_t31_an_invalid_group_preempts_nothing() {
    let mut scene = Scene::new().with_1_37();
    scene.node("one", "2", "a");
    scene.running("low", "one", "2", 1);
    scene.group(important("train", 2));
    important_pods(&mut scene, "train", 1, "1");
    let mut other = pod("train-1", "train", "1");
    other["spec"]["priority"] = json!(5);
    scene.pod("train-1", Some(other));
    assert_eq!(scene.preempted(), (Vec::new(), Vec::new()));
    let error = "all pods in a single pod group should have the same priority as the pod group's priority, got 5 and 100";
    assert_eq!(scene.outcomes(), [GroupOutcome::Error(error.to_owned())]);
}

/// S7-031: the members are deleted before the attempt. It ends, and pods that come later are tried.
#[test]
fn s7_031_an_attempt_without_members_leaves_nothing_pending() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    scene.group(group("g", 2));
    scene.pods("g", 2, "9");
    scene.attempts();
    scene.outcomes();
    for name in ["g-0", "g-1"] {
        let mut deleted = scene.pods[name].clone();
        deleted["metadata"]["deletionTimestamp"] = json!("1970-01-01T00:10:00Z");
        scene.pod(name, Some(deleted));
    }
    scene.node("large", "20", "a");
    let attempts = scene.attempts();
    let is_deleting = |outcome: &Outcome| matches!(outcome, Outcome::Deleting);
    assert!(
        attempts.iter().all(|attempt| is_deleting(&attempt.outcome)),
        "{attempts:?}"
    );
    assert_eq!(scene.outcomes(), [], "no condition is written");
    assert_eq!(scene.scheduler.queue().in_flight().count(), 0);
    for name in ["g-2", "g-3"] {
        scene.pod(name, Some(pod(name, "g", "1")));
    }
    assert_eq!(scene.placed().len(), 2);
}

/// S7-032: a deleted pod counts no more for the plugin that rejected it, wherever it waited.
#[test]
fn s7_032_deleted_pods_are_taken_back_from_the_metric_of_their_plugins() {
    let rejected = |scene: &Scene| -> usize {
        let counts = scene.scheduler.queue().rejected_counts();
        counts.map(|(_, _, count)| count).sum()
    };
    // Gated, unschedulable, and in backoff.
    for wakes in [None, Some(false), Some(true)] {
        let mut scene = Scene::new();
        scene.node("one", "1", "a");
        scene.group(group("g", 2));
        scene.pods("g", 2, "9");
        if let Some(wakes) = wakes {
            scene.attempts();
            if wakes {
                let larger = crate::node("two")
                    .cpu("9")
                    .set("/status/allocatable/pods", "9");
                scene.on(&Event::Change(Change::Node(added(larger))));
            }
        } else {
            scene.group(group("g", 3));
        }
        if wakes != Some(true) {
            assert!(rejected(&scene) > 0, "{wakes:?}");
        }
        scene.pod("g-0", None);
        scene.pod("g-1", None);
        assert_eq!(rejected(&scene), 0, "{wakes:?}");
    }
}

/// S7-038: each pod is tried beside those before it, in the order of their arrival. Nothing stays reserved after a failure.
#[test]
fn s7_038_pods_are_tried_one_after_the_other_and_taken_back_together() {
    let mut scene = tried(2, &["3", "2", "1"]);
    let placed: Vec<String> = scene.placed().into_keys().collect();
    assert_eq!(placed, ["g-0", "g-2"]);
    let mut scene = tried(3, &["3", "2", "1"]);
    assert!(scene.placed().is_empty());
    assert_eq!(scene.requested("one"), 0);
}

/// S7-041: pods that are assigned, and pods that are only assumed, count.
#[test]
fn s7_041_assigned_and_assumed_pods_count_for_the_quorum() {
    let mut scene = Scene::new();
    scene.node("one", "8", "a");
    scene.group(group("g", 3));
    scene.member_on("g-runs", ("g", 0), "one", "1");
    scene.pods("g", 2, "1");
    assert_eq!(scene.placed().len(), 2, "assigned");
    scene.group(group("g", 4));
    scene.pod("g-2", Some(pod("g-2", "g", "1")));
    assert_eq!(scene.placed().len(), 1, "two are assumed and not bound yet");
}

/// T34, T36, T47: each pod on a node of its own, or several on one; the group has priority 100.
#[test]
fn s7_065_s7_068_t34_t36_t47_only_pods_that_are_in_the_way_leave() {
    let mut scene = Scene::new();
    scene.node("a", "6", "a");
    for (name, priority) in [("v", 10), ("w", 50), ("x", 100)] {
        scene.running(name, "a", "2", priority);
    }
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(scene.preempted().0, ["default/v"], "T34");

    let mut scene = Scene::new();
    for name in ["g", "h"] {
        let mut old = group(name, 1);
        old["spec"]["priority"] = json!(10);
        scene.group(old);
    }
    for (node, group, priority) in [
        ("a", "g", 10),
        ("b", "g", 10),
        ("c", "h", 10),
        ("d", "", 50),
        ("e", "", 100),
    ] {
        scene.node(node, "2", "a");
        scene.member_on(&format!("on-{node}"), (group, priority), node, "2");
    }
    scene.group(important("train", 3));
    important_pods(&mut scene, "train", 3, "2");
    assert_eq!(
        scene.preempted().0,
        ["default/on-a", "default/on-b", "default/on-c"],
        "T36"
    );

    let mut scene = Scene::new();
    scene.node("a", "4", "a");
    for (name, priority) in [("v", 10), ("w", 50), ("x", 60)] {
        scene.running(name, "a", "1", priority);
    }
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(scene.preempted().0, ["default/v"], "T47");
}

/// T37: the pod whose budget is used up is spared, though it is the younger one.
#[test]
fn s7_065_t37_a_pod_against_its_budget_leaves_last() {
    let mut scene = Scene::new();
    scene.node("a", "4", "a");
    let mut old = group("g", 1);
    old["spec"]["priority"] = json!(10);
    scene.group(old);
    for (name, start) in [
        ("v1", "1970-01-01T00:01:00Z"),
        ("v2", "1970-01-01T00:00:00Z"),
    ] {
        let mut bound = pod(name, "g", "2");
        bound["spec"]["nodeName"] = json!("a");
        bound["spec"]["priority"] = json!(10);
        bound["metadata"]["labels"] = json!({ "app": name });
        bound["status"] = json!({ "startTime": start });
        scene.pod(name, Some(bound));
    }
    let budget = json!({ "metadata": { "name": "b", "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": "v1" } } }, "status": { "disruptionsAllowed": 0 } });
    scene.tell(&Event::PodDisruptionBudget(Delta {
        old: None,
        new: Some(read(budget)),
    }));
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(scene.preempted().0, ["default/v2"]);
}

/// T41: the policy of the group or of its pods. T42: in 1.37 they must agree.
#[test]
fn s7_061_t41_t42_a_group_that_never_preempts() {
    for of_group in [false, true] {
        let mut scene = Scene::new().with_1_37();
        scene.node("a", "2", "a");
        scene.running("v", "a", "2", 10);
        let mut never = important("train", 1);
        if of_group {
            never["spec"]["preemptionPolicy"] = json!("Never");
        }
        scene.group(never);
        let mut member = pod("train-0", "train", "2");
        member["spec"]["priority"] = json!(100);
        member["spec"]["preemptionPolicy"] = json!("Never");
        scene.pod("train-0", Some(member));
        assert!(
            scene
                .group_message()
                .ends_with("not eligible due to preemptionPolicy=Never."),
            "T41"
        );
    }
    let mut scene = Scene::new().with_1_37();
    scene.node("a", "2", "a");
    scene.running("v", "a", "2", 10);
    let mut lower = important("train", 1);
    lower["spec"]["preemptionPolicy"] = json!("PreemptLowerPriority");
    scene.group(lower);
    let mut member = pod("train-0", "train", "2");
    member["spec"]["priority"] = json!(100);
    member["spec"]["preemptionPolicy"] = json!("Never");
    scene.pod("train-0", Some(member));
    let end = "got Never and PreemptLowerPriority";
    assert!(scene.group_message().ends_with(end), "T42");
}

/// T44: a victim that terminates on a node that is not nominated delays nothing.
#[test]
fn s7_062_t44_only_victims_on_nominated_nodes_are_awaited() {
    let mut scene = Scene::new();
    for (name, node) in [("w", "a"), ("v", "b")] {
        scene.node(node, "2", "a");
        scene.running(name, node, "2", 10);
    }
    let mut ending = scene.pods["v"].clone();
    ending["metadata"]["deletionTimestamp"] = json!("1970-01-01T01:00:00Z");
    ending["status"] = json!({ "conditions": [{ "type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler" }] });
    scene.pod("v", Some(ending));
    scene.group(important("train", 2));
    for name in ["train-0", "train-1"] {
        let mut member = pod(name, "train", "2");
        member["spec"]["priority"] = json!(100);
        member["status"] = json!({ "nominatedNodeName": "a" });
        scene.pod(name, Some(member));
    }
    let attempts = scene.attempts();
    let actions = attempts
        .iter()
        .filter_map(|attempt| match &attempt.outcome {
            Outcome::Unschedulable(rejected) => Some(&rejected.actions),
            _ => None,
        });
    let deleted = actions.flatten().map(|action| match action {
        Action::Delete { pod, .. } => pod.clone(),
        other => format!("{other:?}"),
    });
    assert_eq!(deleted.collect::<Vec<_>>(), ["default/w"]);
}

/// T48, T49 and S7-070: the group is placed on the emptied cluster as far as it fits, not only as far as it must.
#[test]
fn s7_069_s7_070_t48_t49_the_placement_without_victims_decides() {
    for min_count in [2, 1] {
        let mut scene = Scene::new();
        for node in ["a", "b"] {
            scene.node(node, "4", "a");
            scene.running(&format!("v-{node}"), node, "2", 10);
            scene.running(&format!("w-{node}"), node, "2", 10);
        }
        scene.group(important("train", min_count));
        important_pods(&mut scene, "train", 2, "2");
        let (victims, nodes) = scene.preempted();
        assert_eq!(
            (victims.len(), nodes.len()),
            (2, 2),
            "{min_count}: {victims:?}"
        );
    }
    // S7-069: both nodes are empty without their pods, and the first one is taken, though it has two victims.
    let mut scene = Scene::new();
    for node in ["a", "b"] {
        scene.node(node, "2", "a");
    }
    scene.running("x1", "a", "1", 10);
    scene.running("x2", "a", "1", 10);
    scene.running("y", "b", "2", 10);
    scene.group(important("train", 1));
    important_pods(&mut scene, "train", 1, "2");
    assert_eq!(
        scene.preempted(),
        (
            vec!["default/x1".to_owned(), "default/x2".to_owned()],
            vec!["a".to_owned()]
        )
    );
}

/// S7-067, S7-072: if the group does not fit without all victims either, no pod leaves, and the reason is that of this attempt.
#[test]
fn s7_067_s7_072_nothing_is_evicted_for_a_part_of_a_group() {
    let mut scene = Scene::new();
    scene.node("a", "2", "a");
    scene.running("v", "a", "2", 10);
    scene.group(important("train", 2));
    important_pods(&mut scene, "train", 2, "2");
    assert_eq!(scene.preempted(), (Vec::new(), Vec::new()));
    let before = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining";
    let without = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    let message = format!("{before}, pod group preemption: {without}");
    assert_eq!(scene.outcomes(), [GroupOutcome::Unschedulable(message)]);
}

/// S7-073: the domain in which the group is placed without victims.
#[test]
fn s7_073_a_group_with_a_topology_constraint_preempts_in_one_domain() {
    let mut scene = Scene::new();
    for (node, rack) in [("a1", "a"), ("b1", "b"), ("b2", "b")] {
        scene.node(node, "2", rack);
        scene.running(&format!("v-{node}"), node, "2", 10);
    }
    let mut train = in_rack("train", 2);
    train["spec"]["priority"] = json!(100);
    scene.group(train);
    important_pods(&mut scene, "train", 2, "2");
    let (victims, nodes) = scene.preempted();
    assert_eq!(victims, ["default/v-b1", "default/v-b2"]);
    assert_eq!(nodes, ["b1", "b2"]);
}

/// S7-075: a group that is evicted as a whole gets it; one whose pods are victims one by one does not.
#[test]
fn s7_075_a_group_that_is_one_victim_gets_a_condition() {
    for (mode, expected) in [("all", 1), ("single", 0)] {
        let mut scene = Scene::new();
        scene.node("a", "2", "a");
        scene.node("b", "2", "a");
        crate::rows::old_group(&mut scene, mode, 10, 10);
        scene.group(important("train", 1));
        important_pods(&mut scene, "train", 1, "2");
        scene.attempts();
        let outcomes = scene.outcomes().into_iter();
        let preempted =
            outcomes.filter(|outcome| *outcome == GroupOutcome::Preempted { for_group: true });
        assert_eq!(preempted.count(), expected, "{mode}");
    }
}

/// T55, T56, T59. T54 is in `queue_rows`, where the domains are counted.
#[test]
fn s7_090_t55_t56_t59_the_nodes_of_a_domain() {
    let scene = || {
        let mut scene = Scene::new();
        for (node, rack) in [("n1", "r1"), ("n2", "r1"), ("n3", "r2")] {
            scene.node(node, "1", rack);
        }
        scene.tell(&scenario_node("n4"));
        scene
    };
    let mut rack = scene();
    rack.group(in_rack("g", 2));
    rack.pods("g", 2, "1");
    let nodes: Vec<String> = rack.placed().into_values().collect();
    assert_eq!(nodes, ["n1", "n2"], "T55");

    let mut fixed = scene();
    fixed.member_on("g-runs", ("g", 0), "n3", "0");
    fixed.group(in_rack("g", 1));
    fixed.pods("g", 1, "1");
    let nodes: Vec<String> = fixed.placed().into_values().collect();
    assert_eq!(nodes, ["n3"], "T56");

    let mut none = Scene::new();
    none.tell(&scenario_node("n4"));
    none.group(in_rack("g", 1));
    none.pods("g", 1, "1");
    let message = none.group_message();
    assert!(
        message.starts_with("0/0 placements are available"),
        "T59: {message}"
    );
}

/// T69: the taint of the only node goes.
#[test]
fn s7_114_t69_a_tree_is_woken_when_a_taint_is_removed() {
    let mut scene = Scene::new();
    let node = crate::node("one")
        .cpu("8")
        .memory("4Gi")
        .set("/status/allocatable/pods", "9");
    let tainted = node.clone().set(
        "/spec/taints",
        json!([{ "key": "x", "effect": "NoSchedule" }]),
    );
    scene.tell(&Event::Change(Change::Node(added(tainted.clone()))));
    scene.composite(crate::trees::composite("r", 1, ""));
    scene.group(crate::trees::leaf("l", 2, "r"));
    scene.pods("l", 2, "2");
    assert!(scene.placed().is_empty());
    scene.tell(&Event::Change(Change::Node(Delta {
        old: Some(tainted.read()),
        new: Some(node.read()),
    })));
    assert_eq!(scene.placed().len(), 2);
}

/// A basic group needs one pod, also for its readiness (T04).
#[test]
fn s7_024_a_basic_group_without_pods_is_not_tried() {
    let mut scene = Scene::new();
    scene.node("one", "4", "a");
    let basic: Value = basic("web");
    scene.group(basic);
    assert!(scene.attempts().is_empty());
}
