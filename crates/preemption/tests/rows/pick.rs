//! Which of several candidates.

use crate::scenario::{Scenario, budget, pod, started};
use evictd_preemption::{Compat, Rule};
use serde_json::Value;

/// One node of four cores a list of pods; the pod that comes needs all four.
fn scenario(nodes: &[(&'static str, Vec<Value>)]) -> Scenario {
    let nodes: Vec<_> = nodes
        .iter()
        .map(|(name, pods)| (*name, 4, pods.clone()))
        .collect();
    Scenario::new(&nodes, &pod("new", 1000, 4))
}

fn decided(scenario: &Scenario) -> (String, Vec<Rule>) {
    let answer = scenario.plan();
    let rules = answer.plan.why.iter().map(|why| why.rule).collect();
    (answer.chosen.unwrap(), rules)
}

#[test]
fn s3_026_the_fewest_violations_decide_first() {
    let scenario = scenario(&[
        ("a", vec![pod("covered", 1, 4)]),
        ("b", vec![pod("free", 900, 4)]),
    ]);
    let scenario = scenario.budgets(&[budget("covered", 0)]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::FewestViolations])
    );
    let answer = scenario.plan();
    assert_eq!(
        answer.why,
        ["fewest PodDisruptionBudget violations: 0, next 1 on a (1 of 2 nodes left)"]
    );
}

#[test]
fn s3_027_then_the_lowest_priority_of_the_first_victim() {
    let scenario = scenario(&[
        ("a", vec![pod("one", 200, 4)]),
        ("b", vec![pod("two", 100, 2), pod("three", 100, 2)]),
    ]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::LowestFirstPriority])
    );
}

#[test]
fn s3_023_s3_027_old_versions_list_violating_victims_first() {
    // On `a` the violating victim is the less important one, and listed first in the old forms.
    let nodes = [
        ("a", vec![pod("covered", 100, 2), pod("free", 300, 2)]),
        ("b", vec![pod("other", 200, 2), pod("other", 200, 2)]),
    ];
    let budgets = [budget("covered", 0), budget("other", 1)];
    for (compat, chosen, first) in [
        (Compat::V1_18, "a", "covered"),
        (Compat::V1_19, "a", "covered"),
        (Compat::V1_36, "b", "other"),
    ] {
        let answer = scenario(&nodes).budgets(&budgets).compat(compat).plan();
        assert_eq!(answer.chosen.as_deref(), Some(chosen), "{compat:?}");
        assert_eq!(answer.victims[0], first, "{compat:?}");
    }
}

#[test]
fn s3_028_then_the_smallest_sum_of_priorities_each_raised_so_that_none_is_negative() {
    // Without the offset two pods of -10 would sum up to less than one.
    let scenario = scenario(&[
        ("a", vec![pod("one", -10, 2), pod("two", -10, 2)]),
        ("b", vec![pod("three", -10, 4)]),
    ]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::SmallestPrioritySum])
    );
    let answer = scenario.plan();
    assert_eq!(
        answer.why,
        [
            "smallest sum of the victims' priorities (each + 2^31): 2147483638, next 4294967276 on a (1 of 2 nodes left)"
        ]
    );
}

#[test]
fn s3_029_then_the_fewest_victims() {
    // The lowest priority adds nothing to a sum, so only the number of victims differs.
    let lowest = i32::MIN;
    let scenario = scenario(&[
        (
            "a",
            vec![
                pod("one", 5, 1),
                pod("two", lowest, 2),
                pod("three", lowest, 1),
            ],
        ),
        ("b", vec![pod("four", 5, 3), pod("five", lowest, 1)]),
    ]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::FewestVictims])
    );
}

#[test]
fn s3_030_then_the_latest_of_the_earliest_starts_of_the_most_important_victims() {
    let scenario = scenario(&[
        (
            "a",
            vec![started(pod("one", 5, 2), 1), started(pod("two", 5, 2), 9)],
        ),
        (
            "b",
            vec![
                started(pod("three", 5, 2), 3),
                started(pod("four", 5, 2), 4),
            ],
        ),
    ]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::LatestStart])
    );
    // The running time of less important victims does not matter.
    let scenario = self::scenario(&[
        (
            "a",
            vec![started(pod("one", 5, 2), 5), started(pod("two", 4, 2), 0)],
        ),
        (
            "b",
            vec![
                started(pod("three", 5, 2), 3),
                started(pod("four", 4, 2), 9),
            ],
        ),
    ]);
    assert_eq!(scenario.plan().chosen.as_deref(), Some("a"));
}

#[test]
fn s3_020_a_pod_that_has_not_started_counts_as_starting_now() {
    let scenario = scenario(&[
        ("a", vec![started(pod("one", 5, 4), 59)]),
        ("b", vec![pod("two", 5, 4)]),
    ]);
    assert_eq!(
        decided(&scenario),
        ("b".to_owned(), vec![Rule::LatestStart])
    );
    assert!(scenario.plan().why[0].contains("not started yet, next 2026-01-01T00:59:00Z on a"));
}

#[test]
fn s3_031_s4_008_the_first_name_breaks_a_tie_in_any_order_of_nodes() {
    for names in [["a", "b"], ["b", "a"]] {
        let nodes = names.map(|name| (name, vec![started(pod("same", 5, 4), 1)]));
        let scenario = scenario(&nodes);
        assert_eq!(decided(&scenario), ("a".to_owned(), vec![Rule::FirstName]));
    }
    let alone = scenario(&[("a", vec![pod("one", 5, 4)])]);
    assert_eq!(alone.plan().why, ["the only candidate"]);
}
