//! A single pod that preempts pods of groups (table F5 of the specification).

use crate::scenario::{
    Answer, Scenario, budget, in_group, nominated, pod, preempted, started, with,
};
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_preemption::{
    BudgetPolicy, Compat, Ineligible, NotCandidate, Step, VictimRules, explain_node,
};
use serde_json::{Value, json};

/// A pod of group g, of two cores.
fn member(name: &str, priority: i32) -> Value {
    in_group(pod(name, priority, 2), "g")
}

/// A pod of priority 100 that needs two cores. Nodes a and b of two cores are full with v1 and v2 of group g.
fn two_nodes(more: &[(&str, u32, Vec<Value>)]) -> Scenario {
    let mut nodes = vec![
        ("a", 2, vec![member("v1", 10)]),
        ("b", 2, vec![member("v2", 10)]),
    ];
    nodes.extend(more.iter().cloned());
    Scenario::new(&nodes, &pod("new", 100, 2))
}

fn chosen(answer: &Answer) -> (Option<&str>, Vec<&str>) {
    let victims = answer.victims.iter().map(String::as_str);
    (answer.chosen.as_deref(), victims.collect())
}

#[test]
fn s7_080_t50_all_pods_of_a_group_are_one_victim_on_each_node_where_it_has_one() {
    let answer = two_nodes(&[]).groups(&[("g", 10, true)]).plan();
    assert_eq!(chosen(&answer), (Some("a"), vec!["v1", "v2"]));
    assert_eq!(answer.candidates, ["a", "b"]);
    let deleted: Vec<&String> = answer
        .actions
        .iter()
        .filter(|action| action.starts_with("delete"))
        .collect();
    assert_eq!(deleted, ["delete v1", "delete v2"]);
    let groups = answer.plan.groups().iter().map(|name| &**name);
    assert_eq!(groups.collect::<Vec<_>>(), ["g"]);
}

#[test]
fn s7_066_t51_pods_of_a_group_with_mode_single_are_victims_one_by_one() {
    let answer = two_nodes(&[]).groups(&[("g", 10, false)]).plan();
    assert_eq!(chosen(&answer), (Some("a"), vec!["v1"]));
    assert!(answer.plan.groups().is_empty());
}

#[test]
fn s7_080_s7_081_t52_the_priority_of_the_group_counts_instead_of_that_of_its_pods() {
    for together in [true, false] {
        let answer = two_nodes(&[]).groups(&[("g", 100, together)]).plan();
        assert_eq!(chosen(&answer), (None, vec![]));
        let why = |(_, why): &(_, NotCandidate)| *why == NotCandidate::NoVictims;
        assert!(answer.plan.not_candidates.iter().all(why));
        // The priority of the pod itself does not protect it.
        let high = [("a", 2, vec![member("v1", 1000)])];
        let scenario = Scenario::new(&high, &pod("new", 100, 2));
        let answer = scenario.groups(&[("g", 10, together)]).plan();
        assert_eq!(chosen(&answer), (Some("a"), vec!["v1"]));
    }
}

#[test]
fn s7_080_t53_a_single_victim_is_better_than_a_group() {
    let answer = two_nodes(&[("c", 2, vec![pod("w", 10, 2)])]);
    let answer = answer.groups(&[("g", 10, true)]).plan();
    assert_eq!(chosen(&answer), (Some("c"), vec!["w"]));
    assert_eq!(answer.candidates, ["a", "b", "c"]);
}

#[test]
fn s7_064_an_unknown_group_is_no_group() {
    let answer = two_nodes(&[]).groups(&[("h", 1000, true)]).plan();
    assert_eq!(chosen(&answer), (Some("a"), vec!["v1"]));
}

#[test]
fn before_kubernetes_1_37_and_in_older_forms_single_pods_see_no_groups() {
    let mut scenario = two_nodes(&[]).groups(&[("g", 100, true)]);
    for compat in [Compat::V1_18, Compat::V1_19] {
        scenario = scenario.compat(compat);
        assert_eq!(scenario.plan().victims, ["v1"]);
    }
    let mut scenario = scenario.compat(Compat::V1_36);
    let release = Compatibility::of(Release::V1_36);
    scenario.cluster.set_compatibility(release);
    assert_eq!(scenario.plan().victims, ["v1"]);
}

#[test]
fn s7_065_groups_are_spared_before_pods_larger_ones_first_and_then_the_earlier_start() {
    // The pod needs one of three cores, so that only the least important victim of equal priority is evicted.
    let plan = |pods: Vec<Value>| {
        let nodes = [
            ("a", 3, pods),
            (
                "b",
                9,
                vec![in_group(pod("g2", 10, 1), "g"), pod("full", 1000, 8)],
            ),
        ];
        let scenario = Scenario::new(&nodes, &pod("new", 100, 1));
        scenario.groups(&[("g", 10, true), ("h", 10, false)]).plan()
    };
    let of = |name: &str, group: &str| in_group(started(pod(name, 10, 1), 1), group);
    let (g1, h1, h2) = (of("g1", "g"), of("h1", "h"), of("h2", "h"));
    let alone = started(pod("alone", 10, 1), 0);
    let later = with(
        h2.clone(),
        "/status/startTime",
        json!("2026-01-01T00:05:00Z"),
    );
    for (pods, victim) in [
        (vec![g1.clone(), h1.clone(), alone], "alone"),
        (vec![g1.clone(), later, h1], "h2"),
    ] {
        assert_eq!(plan(pods).victims, [victim]);
    }
    let answer = plan(vec![g1, pod("high", 1000, 2)]);
    assert_eq!(answer.victims, ["g1", "g2"]);
}

#[test]
fn s7_085_each_pod_of_a_group_that_breaks_a_budget_counts() {
    let scenario = two_nodes(&[]).budgets(&[budget("v1", 0), budget("v2", 0)]);
    let answer = scenario.groups(&[("g", 10, true)]).plan();
    let violations = answer.plan.candidates.iter().map(|one| one.violations);
    assert_eq!(violations.collect::<Vec<_>>(), [2, 2]);
}

/// Two groups of two pods and a single pod share one eviction. A group that is spared uses nothing of the budget.
#[test]
fn a_policy_that_spares_budgets_evicts_a_pod_beside_groups_that_are_too_large() {
    let of_app = |pod: Value| with(pod, "/metadata/labels/app", json!("web"));
    let grouped =
        |name: &str, group: &str, priority: i32| of_app(in_group(pod(name, priority, 1), group));
    let nodes = [(
        "a",
        5,
        vec![
            grouped("g1", "g", 30),
            grouped("g2", "g", 30),
            of_app(pod("alone", 20, 1)),
            grouped("h1", "h", 10),
            grouped("h2", "h", 10),
        ],
    )];
    let scenario = Scenario::new(&nodes, &pod("new", 100, 1))
        .budgets(&[budget("web", 1)])
        .groups(&[("g", 30, true), ("h", 10, true)])
        .policy(BudgetPolicy::NeverViolate);
    assert_eq!(scenario.plan().victims, ["alone"]);
}

#[test]
fn a_pod_that_its_group_does_not_list_is_evicted_alone() {
    let scenario = Scenario::new(&[("a", 2, vec![])], &pod("new", 100, 2));
    let late = with(member("v1", 10), "/spec/nodeName", json!("a"));
    let answer = scenario.groups(&[("g", 10, true)]).waits(&late).plan();
    assert_eq!(chosen(&answer), (Some("a"), vec!["v1"]));
    assert!(answer.plan.groups().is_empty());
}

#[test]
fn a_group_on_many_nodes_is_stored_once() {
    let answer = two_nodes(&[]).groups(&[("g", 10, true)]).plan();
    let [first, second] = &answer.plan.candidates[..] else {
        panic!("{:?}", answer.candidates);
    };
    let stored = |candidate| answer.plan.victims(candidate).as_ptr();
    assert_eq!(stored(first), stored(second));
}

#[test]
fn s7_063_a_terminating_pod_counts_with_the_priority_of_its_group() {
    let ineligible = |priority: i32| {
        let nodes = [
            ("a", 2, vec![preempted(member("v1", 10))]),
            ("b", 2, vec![pod("w", 10, 2)]),
        ];
        let new = nominated(pod("new", 100, 2), "a");
        let scenario = Scenario::new(&nodes, &new).groups(&[("g", priority, false)]);
        scenario.plan().plan.ineligible
    };
    assert_eq!(ineligible(10), Some(Ineligible::Terminating));
    assert_eq!(ineligible(200), None);
}

/// Pods of one zone may not be beside the pod. One of them is on another node, and of a group that is preempted as a whole.
#[test]
fn s7_082_filters_that_compare_nodes_see_that_the_whole_group_leaves() {
    let away = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "v2" } } }] } });
    let new = with(pod("new", 100, 2), "/spec/affinity", away);
    let nodes = [
        ("a", 2, vec![member("v1", 10)]),
        ("b", 3, vec![member("v2", 10), pod("high", 1000, 1)]),
        ("c", 2, vec![pod("w", 10, 2)]),
    ];
    let plan = |together| {
        let scenario = Scenario::new(&nodes, &new);
        scenario.groups(&[("g", 10, together)]).plan()
    };
    // Alone, v1 makes room but v2 is still in the zone. On b both the room and the zone become free.
    assert_eq!(plan(false).candidates, ["b"]);
    assert_eq!(plan(true).candidates, ["a", "b"]);
    assert_eq!(plan(true).victims, ["v1", "v2"]);
}

#[test]
fn s7_082_topology_spread_subtracts_victims_on_other_nodes_and_counts_them_again_on_the_next_node()
{
    let spread = json!([{ "maxSkew": 1, "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "tier": "x" } } }]);
    let tier = |pod: Value| with(pod, "/metadata/labels/tier", json!("x"));
    let new = tier(with(
        pod("new", 100, 2),
        "/spec/topologySpreadConstraints",
        spread,
    ));
    let full = || pod("full", 1000, 1);
    let nodes = [
        ("a", 3, vec![tier(member("v1", 10)), full()]),
        ("b", 3, vec![tier(pod("w", 10, 2)), full()]),
        ("c", 3, vec![tier(member("v2", 10)), full()]),
    ];
    let scenario = Scenario::new(&nodes, &new).groups(&[("g", 10, true)]);
    let answer = scenario.plan();
    assert_eq!(answer.candidates, ["a", "b", "c"]);
    assert_eq!(chosen(&answer), (Some("b"), vec!["w"]));
}

#[test]
fn the_steps_on_one_node_name_whole_groups() {
    let scenario = two_nodes(&[]).groups(&[("g", 10, true)]);
    let node = scenario.cluster.find_node("b").unwrap();
    let rules = VictimRules {
        budgets: &[],
        groups: Some(&scenario.groups),
    };
    let (steps, end) = explain_node(
        &scenario.cluster,
        rules,
        &scenario.preemptor,
        scenario.options,
        node,
    );
    let Some(Step::Victim { pods, .. }) = steps.last() else {
        panic!("no victim: {steps:?}");
    };
    let names = pods
        .iter()
        .map(|victim| victim.pod(&scenario.cluster).name());
    assert_eq!(names.collect::<Vec<_>>(), ["v1", "v2"]);
    assert_eq!(end, Ok(0));
}
