//! The actions and their order.

use crate::scenario::{Scenario, nominated, pod, preempted, terminating};
use evictd_preemption::{Action, Compat};
use serde_json::json;

/// Two victims, a less important pod nominated to the chosen node, and unaffected pods.
fn scenario(compat: Compat) -> Scenario {
    let pods = vec![pod("one", 2, 2), pod("two", 1, 2)];
    Scenario::new(
        &[("a", 4, pods), ("b", 4, vec![pod("three", 500, 4)])],
        &pod("new", 1000, 4),
    )
    .waits(&nominated(pod("lower", 999, 1), "a"))
    .waits(&nominated(pod("elsewhere", 1, 1), "b"))
    .compat(compat)
}

#[test]
fn s3_003_s3_004_s3_005_s3_006_s3_009_v1_18_nominates_then_deletes_then_clears() {
    let answer = scenario(Compat::V1_18).plan();
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
fn s4_003_s4_007_v1_19_deletes_then_clears_then_nominates() {
    let answer = scenario(Compat::V1_19).plan();
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
fn s4_021_s4_028_v1_36_nominates_and_clears_first_and_sets_conditions() {
    let answer = scenario(Compat::V1_36).plan();
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
fn s3_008_s4_024_events_name_the_preemptor_and_in_v1_36_its_uid() {
    for (compat, note) in [
        (Compat::V1_18, "Preempted by default/new on node a"),
        (Compat::V1_19, "Preempted by default/new on node a"),
        (Compat::V1_36, "Preempted by pod uid-new on node a"),
    ] {
        let answer = scenario(compat).plan();
        let mut actions = answer.plan.actions.iter();
        let event = actions.find(|action| matches!(action, Action::Event(_)));
        let wanted = json!({ "do": "event", "pod": "default/one", "type": "Normal",
            "reason": "Preempted", "action": "Preempting", "note": note });
        assert_eq!(serde_json::to_value(event.unwrap()).unwrap(), wanted);
    }
}

#[test]
fn s3_007_s4_022_victims_that_wait_in_permit_are_rejected() {
    let evict = |compat| {
        let answer = scenario(compat).plan_with(&mut [], &["two"]);
        let of_two = answer
            .actions
            .into_iter()
            .filter(|action| action.ends_with(" two"));
        (of_two.collect::<Vec<_>>(), answer.plan.actions)
    };
    let (two, _) = evict(Compat::V1_18);
    assert_eq!(two, ["delete two", "rejectWaiting two", "event two"]);
    let (two, actions) = evict(Compat::V1_36);
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
fn s3_033_s4_023_s4_030_v1_36_does_not_delete_terminating_victims() {
    let actions = |compat| {
        let pods = vec![terminating(pod("one", 2, 4))];
        let scenario = Scenario::new(&[("a", 4, pods)], &pod("new", 1000, 4));
        scenario.compat(compat).plan().actions
    };
    assert_eq!(actions(Compat::V1_36), ["nominate new"]);
    assert_eq!(
        actions(Compat::V1_18),
        ["nominate new", "delete one", "event one"]
    );
}

#[test]
fn s3_032_s4_032_only_nominations_of_lower_priority_on_the_chosen_node_are_cleared() {
    let scenario = scenario(Compat::V1_36);
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
fn s3_013_s3_015_s4_004_s4_009_s4_018_a_pod_that_preemption_cannot_help_loses_its_nomination() {
    let preemptor = nominated(pod("new", 1000, 4), "a");
    let too_small = || vec![("a", 2, vec![pod("one", 1, 2)])];
    let too_important = || vec![("a", 4, vec![pod("one", 1, 2), pod("high", 2000, 2)])];
    let actions = |nodes: &[_], compat| {
        Scenario::new(nodes, &preemptor)
            .compat(compat)
            .plan()
            .actions
    };
    for compat in Compat::ALL {
        assert_eq!(
            actions(&too_small(), compat),
            ["clearNomination new"],
            "{compat:?}"
        );
    }
    // The pod keeps its nomination in old versions if preemption could help on a node.
    for compat in [Compat::V1_18, Compat::V1_19] {
        assert!(actions(&too_important(), compat).is_empty(), "{compat:?}");
    }
    assert_eq!(
        actions(&too_important(), Compat::V1_36),
        ["clearNomination new"]
    );
    // A pod that may not preempt keeps it; a pod without one has nothing to clear.
    let ending = vec![("a", 4, vec![preempted(pod("one", 1, 4))])];
    for compat in Compat::ALL {
        assert!(actions(&ending, compat).is_empty(), "{compat:?}");
    }
    let without = Scenario::new(&too_small(), &pod("new", 1000, 4));
    assert!(without.plan().actions.is_empty());
}
