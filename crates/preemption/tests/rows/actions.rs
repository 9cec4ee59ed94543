//! What a scheduler would do, and in which order.

use crate::scenario::{Scenario, nominated, pod, preempted, terminating};
use evictd_preemption::{Action, Form};
use serde_json::json;

/// Two victims, a less important nominated pod on the chosen node, and others that nothing happens to.
fn scenario(form: Form) -> Scenario {
    let pods = vec![pod("one", 2, 2), pod("two", 1, 2)];
    Scenario::new(
        &[("a", 4, pods), ("b", 4, vec![pod("three", 500, 4)])],
        &pod("new", 1000, 4),
    )
    .waits(&nominated(pod("lower", 999, 1), "a"))
    .waits(&nominated(pod("elsewhere", 1, 1), "b"))
    .form(form)
}

#[test]
fn s3_003_s3_004_s3_005_s3_006_s3_009_the_oldest_form_nominates_then_deletes_then_clears() {
    let answer = scenario(Form::V1_18).plan();
    let wanted = [
        "nominate new",
        "delete one",
        "event one",
        "delete two",
        "event two",
        "clearNomination lower",
    ];
    assert_eq!(answer.actions, wanted);
}

#[test]
fn s4_003_s4_007_the_plugin_deletes_then_clears_then_nominates() {
    let answer = scenario(Form::V1_19).plan();
    let wanted = [
        "delete one",
        "event one",
        "delete two",
        "event two",
        "clearNomination lower",
        "nominate new",
    ];
    assert_eq!(answer.actions, wanted);
}

#[test]
fn s4_021_s4_028_the_newest_form_nominates_and_clears_first_and_marks_its_victims() {
    let answer = scenario(Form::V1_36).plan();
    let wanted = [
        "nominate new",
        "clearNomination lower",
        "patchCondition one",
        "delete one",
        "event one",
        "patchCondition two",
        "delete two",
        "event two",
    ];
    assert_eq!(answer.actions, wanted);
    let condition = serde_json::to_value(&answer.plan.actions[2]).unwrap();
    let wanted = json!({
        "do": "patchCondition", "pod": "default/one", "uid": "uid-one",
        "type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
        "message": "default-scheduler: preempting to accommodate a higher priority pod",
    });
    assert_eq!(condition, wanted);
}

#[test]
fn s3_008_s4_024_events_name_the_preemptor_by_its_name_and_in_the_newest_form_by_its_uid() {
    for (form, note) in [
        (Form::V1_18, "Preempted by default/new on node a"),
        (Form::V1_19, "Preempted by default/new on node a"),
        (Form::V1_36, "Preempted by pod uid-new on node a"),
    ] {
        let answer = scenario(form).plan();
        let mut actions = answer.plan.actions.iter();
        let event = actions.find(|action| matches!(action, Action::Event(_)));
        let wanted = json!({ "do": "event", "pod": "default/one", "type": "Normal",
            "reason": "Preempted", "action": "Preempting", "note": note });
        assert_eq!(serde_json::to_value(event.unwrap()).unwrap(), wanted);
    }
}

#[test]
fn s3_007_s4_022_victims_that_wait_for_their_binding_are_refused() {
    let ends = |form| {
        let answer = scenario(form).plan_with(&mut [], &["two"]);
        let of_two = answer
            .actions
            .into_iter()
            .filter(|action| action.ends_with(" two"));
        (of_two.collect::<Vec<_>>(), answer.plan.actions)
    };
    let (two, _) = ends(Form::V1_18);
    assert_eq!(two, ["delete two", "rejectWaiting two", "event two"]);
    let (two, actions) = ends(Form::V1_36);
    assert_eq!(two, ["rejectWaiting two", "event two"]);
    let Some(Action::Event(event)) = actions.last() else {
        panic!("no event at the end");
    };
    assert_eq!(
        event.note,
        "Preempted by pod uid-new on node a (in kube-scheduler memory)."
    );
}

#[test]
fn s3_033_s4_023_s4_030_the_newest_form_does_not_end_what_is_ending() {
    let actions = |form| {
        let pods = vec![terminating(pod("one", 2, 4))];
        let scenario = Scenario::new(&[("a", 4, pods)], &pod("new", 1000, 4));
        scenario.form(form).plan().actions
    };
    assert_eq!(actions(Form::V1_36), ["nominate new"]);
    assert_eq!(
        actions(Form::V1_18),
        ["nominate new", "delete one", "event one"]
    );
}

#[test]
fn s3_032_s4_032_only_less_important_nominations_on_the_chosen_node_are_cleared() {
    let scenario = scenario(Form::V1_36);
    let answer = scenario.plan();
    let cleared = answer
        .plan
        .clear_nominations(&scenario.cluster, &scenario.preemptor);
    assert_eq!(cleared, ["default/lower"]);
    let pods = vec![pod("one", 2, 2), pod("two", 1, 2)];
    let scenario = Scenario::new(&[("a", 4, pods)], &pod("new", 1000, 2));
    let scenario = scenario.waits(&nominated(pod("equal", 1000, 2), "a"));
    let answer = scenario.plan();
    assert_eq!(answer.victims, ["one", "two"]);
    assert!(
        !answer
            .actions
            .iter()
            .any(|action| action.starts_with("clear"))
    );
}

#[test]
fn s3_013_s3_015_s4_004_s4_009_s4_018_a_pod_that_nothing_helps_loses_its_own_nomination() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let too_small = || vec![("a", 2, vec![pod("one", 1, 2)])];
    let too_important = || vec![("a", 4, vec![pod("one", 1, 2), pod("high", 2000, 2)])];
    let actions = |nodes: &[_], form| Scenario::new(nodes, &preemptor).form(form).plan().actions;
    for form in Form::ALL {
        assert_eq!(
            actions(&too_small(), form),
            ["clearNomination new"],
            "{form:?}"
        );
    }
    // A node that could have been helped, and was not: before, the pod kept its hope.
    for form in [Form::V1_18, Form::V1_19] {
        assert!(actions(&too_important(), form).is_empty(), "{form:?}");
    }
    assert_eq!(
        actions(&too_important(), Form::V1_36),
        ["clearNomination new"]
    );
    // One that may not preempt keeps it, and so does one without.
    let ending = vec![("a", 4, vec![preempted(pod("one", 1, 4))])];
    for form in Form::ALL {
        assert!(actions(&ending, form).is_empty(), "{form:?}");
    }
    let without = Scenario::new(&too_small(), &pod("new", 1000, 4));
    assert!(without.plan().actions.is_empty());
}
