//! Whether a pod may preempt at all.

use crate::scenario::{Scenario, nominated, pod, preempted, terminating, with};
use evictd_preemption::{Compat, Ineligible};
use serde_json::{Value, json};

fn ineligible(
    nodes: &[(&str, u32, Vec<Value>)],
    preemptor: &Value,
    compat: Compat,
) -> Option<Ineligible> {
    let answer = Scenario::new(nodes, preemptor).compat(compat).plan();
    if answer.plan.ineligible.is_some() {
        assert!(answer.candidates.is_empty() && answer.actions.is_empty());
        let words = answer.plan.ineligible.map(Ineligible::as_str);
        assert_eq!(answer.message.as_deref(), words);
    }
    answer.plan.ineligible
}

#[test]
fn s3_011_s3_013_s4_011_a_pod_with_policy_never_does_not_preempt() {
    let never = with(
        pod("new", 1000, 4),
        "/spec/preemptionPolicy",
        json!("Never"),
    );
    let nodes = [("a", 4, vec![pod("one", 1, 4)])];
    for compat in Compat::ALL {
        assert_eq!(ineligible(&nodes, &never, compat), Some(Ineligible::Never));
    }
    let lower = with(
        never,
        "/spec/preemptionPolicy",
        json!("PreemptLowerPriority"),
    );
    assert_eq!(ineligible(&nodes, &lower, Compat::V1_36), None);
}

#[test]
fn s3_012_s4_012_a_pod_waits_for_terminating_victims_on_its_nominated_node() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let waits = |ending: Value, compat| {
        let nodes = [("a", 4, vec![ending]), ("b", 4, vec![pod("other", 1, 4)])];
        ineligible(&nodes, &preemptor, compat) == Some(Ineligible::Terminating)
    };
    for compat in Compat::ALL {
        assert!(waits(preempted(pod("one", 1, 4)), compat), "{compat:?}");
        assert!(
            !waits(preempted(pod("equal", 1000, 4)), compat),
            "{compat:?}"
        );
        assert!(!waits(pod("one", 1, 4), compat), "{compat:?}");
        // Only victims of preemption delay the pod in `V1_36`.
        let ordinary = waits(terminating(pod("one", 1, 4)), compat);
        assert_eq!(ordinary, compat < Compat::V1_36, "{compat:?}");
    }
    // A pod without a nomination never waits for victims.
    let nodes = [("a", 4, vec![preempted(pod("one", 1, 4))])];
    assert_eq!(
        ineligible(&nodes, &pod("new", 1000, 4), Compat::V1_36),
        None
    );
    let gone = nominated(pod("new", 1000, 4), "no-such-node");
    assert_eq!(ineligible(&nodes, &gone, Compat::V1_36), None);
}

#[test]
fn s3_012_s4_013_a_pod_does_not_wait_for_an_unresolvable_nominated_node() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let nodes = [
        ("a", 2, vec![preempted(pod("one", 1, 2))]),
        ("b", 4, vec![pod("other", 1, 4)]),
    ];
    assert_eq!(
        ineligible(&nodes, &preemptor, Compat::V1_18),
        Some(Ineligible::Terminating)
    );
    for compat in [Compat::V1_19, Compat::V1_36] {
        assert_eq!(ineligible(&nodes, &preemptor, compat), None);
    }
}
