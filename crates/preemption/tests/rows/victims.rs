//! The victims on one node.

use crate::scenario::{Scenario, budget, nominated, pod, started, terminating, with};
use evictd_preemption::{
    BudgetPolicy, Compat, NotCandidate, Step, Victim, VictimRules, explain_node,
};
use serde_json::{Value, json};

/// One node, and a pod of priority 1000 that asks for these cores.
fn on_one_node(cores: u32, pods: Vec<Value>, wanted: u32) -> Scenario {
    Scenario::new(&[("a", cores, pods)], &pod("new", 1000, wanted))
}

#[test]
fn s3_018_s3_033_only_pods_of_lower_priority_are_victims() {
    let pods = || {
        vec![
            pod("equal", 1000, 2),
            pod("higher", 2000, 1),
            pod("lower", 999, 1),
        ]
    };
    assert_eq!(on_one_node(4, pods(), 1).plan().victims, ["lower"]);
    let answer = on_one_node(4, pods(), 2).plan();
    assert_eq!(answer.chosen, None);
    assert!(matches!(
        answer.plan.not_candidates[0].1,
        NotCandidate::DoesNotFit(_)
    ));
    // Terminating pods are potential victims like all others.
    assert_eq!(
        on_one_node(4, vec![terminating(pod("ending", 1, 4))], 4)
            .plan()
            .victims,
        ["ending"]
    );
}

#[test]
fn s3_019_nominated_pods_of_equal_or_higher_priority_count_as_if_they_were_there() {
    for (priority, victims) in [
        (1000, vec!["two", "one"]),
        (2000, vec!["two", "one"]),
        (999, vec!["one"]),
    ] {
        let pods = vec![pod("one", 1, 2), pod("two", 2, 2)];
        let scenario = on_one_node(4, pods, 2);
        let scenario = scenario.waits(&nominated(pod("coming", priority, 2), "a"));
        assert_eq!(scenario.plan().victims, victims, "{priority}");
    }
}

#[test]
fn s3_019_the_pod_itself_does_not_count_against_itself() {
    let preemptor = nominated(pod("new", 1000, 2), "a");
    let nodes = [("a", 4, vec![pod("one", 1, 2), pod("two", 2, 2)])];
    let scenario = Scenario::new(&nodes, &preemptor).waits(&preemptor);
    assert_eq!(scenario.plan().victims, ["one"]);
}

#[test]
fn s3_020_s4_019_the_most_important_are_put_back_first() {
    let pods = vec![
        pod("low", 1, 1),
        started(pod("younger", 5, 1), 9),
        started(pod("older", 5, 1), 1),
        pod("unstarted", 5, 1),
    ];
    let left = |wanted| on_one_node(4, pods.clone(), wanted).plan().victims;
    assert_eq!(left(1), ["low"]);
    assert_eq!(left(2), ["unstarted", "low"]);
    assert_eq!(left(3), ["younger", "unstarted", "low"]);
    assert_eq!(left(4), ["older", "younger", "unstarted", "low"]);
}

#[test]
fn s3_021_s7_084_each_victim_uses_up_its_budgets_and_an_empty_selector_covers_none() {
    let app = |name| with(pod(name, 1, 1), "/metadata/labels", json!({ "app": "db" }));
    let pods = vec![
        started(app("first"), 1),
        started(app("second"), 2),
        started(app("third"), 3),
    ];
    let violations = |budgets: &[Value], compat| {
        let scenario = on_one_node(3, pods.clone(), 3)
            .budgets(budgets)
            .compat(compat);
        scenario.plan().plan.choice().unwrap().violations
    };
    let newest = Compat::V1_36;
    assert_eq!(violations(&[budget("db", 3)], newest), 0);
    assert_eq!(violations(&[budget("db", 1)], newest), 2);
    assert_eq!(violations(&[budget("db", -1)], newest), 3);
    assert_eq!(violations(&[budget("db", 1), budget("db", 0)], newest), 3);
    assert_eq!(violations(&[budget("other", 0)], newest), 0);
    let elsewhere = with(budget("db", 0), "/metadata/namespace", json!("other"));
    assert_eq!(violations(&[elsewhere], newest), 0);
    for selector in [json!(null), json!({}), json!({ "matchLabels": {} })] {
        let all = with(budget("db", 0), "/spec/selector", selector);
        assert_eq!(violations(&[all], newest), 0);
    }
}

#[test]
fn s3_021_pods_without_labels_are_covered_by_no_budget() {
    let bare = with(pod("bare", 1, 3), "/metadata/labels", json!(null));
    let not_db =
        json!({ "matchExpressions": [{ "key": "app", "operator": "NotIn", "values": ["db"] }] });
    let budget = with(budget("", 0), "/spec/selector", not_db);
    let scenario = on_one_node(3, vec![bare], 3).budgets(&[budget]);
    assert_eq!(scenario.plan().plan.choice().unwrap().violations, 0);
}

#[test]
fn s4_006_disrupted_pods_do_not_count_again() {
    let disrupted = json!({ "one": "2026-01-01T00:00:00Z" });
    let budget = with(budget("one", 0), "/status/disruptedPods", disrupted);
    for (compat, violations) in [(Compat::V1_18, 1), (Compat::V1_19, 0), (Compat::V1_36, 0)] {
        let scenario = on_one_node(1, vec![pod("one", 1, 1)], 1);
        let scenario = scenario
            .budgets(std::slice::from_ref(&budget))
            .compat(compat);
        assert_eq!(
            scenario.plan().plan.choice().unwrap().violations,
            violations
        );
    }
}

#[test]
fn s3_022_violating_pods_are_put_back_first() {
    // Both nodes can keep only one of the pods; the less important one is covered and stays.
    let pods = vec![pod("covered", 1, 2), pod("free", 900, 2)];
    let scenario = on_one_node(4, pods.clone(), 2).budgets(&[budget("covered", 0)]);
    assert_eq!(scenario.plan().victims, ["free"]);
    let scenario = on_one_node(4, pods, 2);
    assert_eq!(scenario.plan().victims, ["covered"]);
}

#[test]
fn s3_023_only_v1_36_sorts_victims_by_importance() {
    let pods = || vec![pod("covered", 1, 2), pod("free", 900, 2)];
    for (compat, victims) in [
        (Compat::V1_18, ["covered", "free"]),
        (Compat::V1_19, ["covered", "free"]),
        (Compat::V1_36, ["free", "covered"]),
    ] {
        let scenario = on_one_node(4, pods(), 4).budgets(&[budget("covered", 0)]);
        assert_eq!(
            scenario.compat(compat).plan().victims,
            victims,
            "{compat:?}"
        );
    }
}

#[test]
fn s4_005_a_node_without_pods_of_lower_priority_is_no_candidate() {
    let answer = on_one_node(4, vec![pod("high", 2000, 4)], 4).plan();
    assert_eq!(answer.plan.not_candidates[0].1, NotCandidate::NoVictims);
    let message = "0/1 nodes are available: 1 No preemption victims found for incoming pod.";
    assert_eq!(answer.message.as_deref(), Some(message));
}

#[test]
fn the_never_violate_policy_evicts_no_protected_pod() {
    let pods = || vec![pod("covered", 1, 2), pod("free", 900, 2)];
    let plan = |allowed, wanted| {
        let scenario = on_one_node(4, pods(), wanted).budgets(&[budget("covered", allowed)]);
        scenario.policy(BudgetPolicy::NeverViolate).plan()
    };
    assert_eq!(plan(0, 2).victims, ["free"]);
    assert_eq!(plan(1, 2).victims, ["covered"]);
    assert_eq!(plan(1, 4).victims, ["free", "covered"]);
    let answer = plan(0, 4);
    assert_eq!(answer.chosen, None);
    assert!(matches!(
        answer.plan.not_candidates[0].1,
        NotCandidate::Budget(_)
    ));
}

#[test]
fn a_node_is_explained_step_by_step() {
    let pods = vec![pod("covered", 1, 1), pod("free", 900, 1), pod("big", 5, 2)];
    let scenario = on_one_node(4, pods, 3).budgets(&[budget("covered", 0)]);
    let node = scenario.cluster.find_node("a").unwrap();
    let Scenario {
        cluster,
        budgets,
        preemptor,
        options,
        ..
    } = &scenario;
    let (steps, end) = explain_node(
        cluster,
        VictimRules::of_budgets(budgets),
        preemptor,
        *options,
        node,
    );
    let obstacle = |text: &str| Some(text.to_owned());
    let one = |index| vec![Victim::new(node, index)];
    assert_eq!(
        steps,
        [
            Step::Removed {
                violating: vec![one(2)],
                others: vec![one(0), one(1)],
            },
            Step::Reprieved(one(2)),
            Step::Victim {
                pods: one(0),
                obstacle: obstacle("insufficient cpu by 1"),
            },
            Step::Victim {
                pods: one(1),
                obstacle: obstacle("insufficient cpu by 2"),
            },
        ]
    );
    assert_eq!(end, Ok(0));
}
