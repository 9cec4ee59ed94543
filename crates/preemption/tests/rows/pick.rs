//! Which of several candidates.

use crate::scenario::{Scenario, budget, pod, started};
use evictd_preemption::{Form, Rule};
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
fn s3_026_the_fewest_violated_budgets_come_first_of_all() {
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
fn s3_023_s3_027_the_first_victim_of_the_old_forms_is_the_first_that_breaks_a_budget() {
    // On `a` the violating victim is the less important one, and listed first in the old forms.
    let nodes = [
        ("a", vec![pod("covered", 100, 2), pod("free", 300, 2)]),
        ("b", vec![pod("other", 200, 2), pod("other", 200, 2)]),
    ];
    let budgets = [budget("covered", 0), budget("other", 1)];
    for (form, chosen, first) in [
        (Form::V1_18, "a", "covered"),
        (Form::V1_19, "a", "covered"),
        (Form::V1_36, "b", "other"),
    ] {
        let answer = scenario(&nodes).budgets(&budgets).form(form).plan();
        assert_eq!(answer.chosen.as_deref(), Some(chosen), "{form:?}");
        assert_eq!(answer.victims[0], first, "{form:?}");
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
    // The lowest priority there is adds nothing to a sum, so that only their number differs.
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
    // What less important victims have run for does not matter.
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
fn s3_031_s4_008_of_equals_the_first_by_name_whatever_the_order_they_come_in() {
    for names in [["a", "b"], ["b", "a"]] {
        let nodes = names.map(|name| (name, vec![started(pod("same", 5, 4), 1)]));
        let scenario = scenario(&nodes);
        assert_eq!(decided(&scenario), ("a".to_owned(), vec![Rule::FirstName]));
    }
    let alone = scenario(&[("a", vec![pod("one", 5, 4)])]);
    assert_eq!(alone.plan().why, ["the only candidate"]);
}
