//! Whether a pod may preempt at all.

use crate::scenario::{Scenario, nominated, pod, preempted, terminating, with};
use evictd_preemption::{Form, Ineligible};
use serde_json::{Value, json};

fn ineligible(
    nodes: &[(&str, u32, Vec<Value>)],
    preemptor: &Value,
    form: Form,
) -> Option<Ineligible> {
    let answer = Scenario::new(nodes, preemptor).form(form).plan();
    if answer.plan.ineligible.is_some() {
        assert!(answer.candidates.is_empty() && answer.actions.is_empty());
        let words = answer.plan.ineligible.map(Ineligible::as_str);
        assert_eq!(answer.message.as_deref(), words);
    }
    answer.plan.ineligible
}

#[test]
fn s3_011_s3_013_s4_011_a_pod_may_say_that_it_never_preempts() {
    let never = with(
        pod("new", 1000, 4),
        "/spec/preemptionPolicy",
        json!("Never"),
    );
    let nodes = [("a", 4, vec![pod("one", 1, 4)])];
    for form in Form::ALL {
        assert_eq!(ineligible(&nodes, &never, form), Some(Ineligible::Never));
    }
    let lower = with(
        never,
        "/spec/preemptionPolicy",
        json!("PreemptLowerPriority"),
    );
    assert_eq!(ineligible(&nodes, &lower, Form::V1_36), None);
}

#[test]
fn s3_012_s4_012_it_waits_for_victims_that_are_ending_on_its_nominated_node() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let waits = |ending: Value, form| {
        let nodes = [("a", 4, vec![ending]), ("b", 4, vec![pod("other", 1, 4)])];
        ineligible(&nodes, &preemptor, form) == Some(Ineligible::Terminating)
    };
    for form in Form::ALL {
        assert!(waits(preempted(pod("one", 1, 4)), form), "{form:?}");
        assert!(!waits(preempted(pod("equal", 1000, 4)), form), "{form:?}");
        assert!(!waits(pod("one", 1, 4), form), "{form:?}");
        // The newest form waits for victims of preemption only.
        let ordinary = waits(terminating(pod("one", 1, 4)), form);
        assert_eq!(ordinary, form < Form::V1_36, "{form:?}");
    }
    // Without a nomination nobody waits.
    let nodes = [("a", 4, vec![preempted(pod("one", 1, 4))])];
    assert_eq!(ineligible(&nodes, &pod("new", 1000, 4), Form::V1_36), None);
    let gone = nominated(pod("new", 1000, 4), "no-such-node");
    assert_eq!(ineligible(&nodes, &gone, Form::V1_36), None);
}

#[test]
fn s3_012_s4_013_unless_that_node_cannot_be_helped_any_more() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let nodes = [
        ("a", 2, vec![preempted(pod("one", 1, 2))]),
        ("b", 4, vec![pod("other", 1, 4)]),
    ];
    assert_eq!(
        ineligible(&nodes, &preemptor, Form::V1_18),
        Some(Ineligible::Terminating)
    );
    for form in [Form::V1_19, Form::V1_36] {
        assert_eq!(ineligible(&nodes, &preemptor, form), None);
    }
}
