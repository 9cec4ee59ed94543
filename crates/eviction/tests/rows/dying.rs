//! Pods on their way out: what they still hold, and who may not be chosen for it.

use crate::node::{MI, Node, at, evictd, hard, kubelet, memory, priority, requesting, seen, soft};
use crate::node::{dies, fails};
use crate::node::{hard_with_reclaim, terminating};
use evictd_decision::Withheld;
use evictd_departures::{Event, PodState};
use evictd_eviction::{Rules, Step};
use evictd_pod::Quantity;
use evictd_signals::{Signal, Threshold};
use jiff::SignedDuration;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;

fn threshold() -> Vec<Threshold> {
    hard(&[("memory.available", "100Mi")])
}

/// A large and a small pod; the large one was chosen at second 0 and will have been killed by `kill_at`.
fn large_one_dying(rules: Rules, kill_at: i64) -> Node {
    let large = (requesting("large", "1Mi"), memory(60 * MI));
    let small = (requesting("small", "1Mi"), memory(20 * MI));
    let mut node = Node::new(rules, vec![large, small]);
    let victim = node.evicted(0, &[(MEMORY, 50 * MI)]);
    assert_eq!(victim.as_deref(), Some("default/large"));
    dies(&mut node.keeper, "uid-large", 0, kill_at);
    node
}

fn enough() -> Withheld {
    Withheld::DyingPodsRelease {
        pods: vec!["default/large".to_owned()],
        release: Quantity::bytes(60 * MI),
        resource: evictd_signals::StarvedResource::Memory,
    }
}

#[test]
fn usage_of_a_dying_pod_is_credited_by_ours_and_not_by_the_kubelet() {
    let mut ours = large_one_dying(evictd(threshold()), 0);
    assert_eq!(ours.withheld(1, &[(MEMORY, 50 * MI)]), Some(enough()));
    let mut kubelets = large_one_dying(kubelet(threshold()), 0);
    let next = kubelets.evicted(1, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn the_credit_of_a_hard_victim_ends_after_two_seconds() {
    let mut node = large_one_dying(evictd(threshold()), 0);
    assert_eq!(node.withheld(1, &[(MEMORY, 50 * MI)]), Some(enough()));
    let next = node.evicted(2, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn the_credit_lasts_while_a_dying_pod_gives_back_and_two_seconds_more() {
    let mut node = large_one_dying(evictd(threshold()), 0);
    // 60Mi as it is chosen; the machine is slow to take it back.
    for (second, holds, available) in [(1, 58, 52), (2, 50, 60), (3, 40, 70), (4, 30, 80)] {
        node.holds("large", memory(holds * MI));
        let seen = node.withheld(second, &[(MEMORY, available * MI)]);
        assert!(
            matches!(seen, Some(Withheld::DyingPodsRelease { .. })),
            "{second}"
        );
    }
    assert!(node.withheld(5, &[(MEMORY, 80 * MI)]).is_some());
    let next = node.evicted(6, &[(MEMORY, 80 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"), "it stands still");
}

#[test]
fn looks_that_are_far_apart_still_see_a_dying_pod_give_back() {
    let mut node = large_one_dying(evictd(threshold()), 0);
    node.holds("large", memory(50 * MI));
    let seen = node.withheld(4, &[(MEMORY, 60 * MI)]);
    assert!(
        matches!(seen, Some(Withheld::DyingPodsRelease { .. })),
        "{seen:?}"
    );
}

#[test]
fn a_victim_that_grew_until_it_was_killed_is_seen_to_give_back_from_there() {
    let mut node = large_one_dying(evictd(threshold()), 0);
    // 60Mi as it was chosen; nobody else may go before second 2.
    for (tenths, holds) in [(1, 95), (5, 90), (10, 80), (19, 70)] {
        node.holds("large", memory(holds * MI));
        let now = at(0) + SignedDuration::from_millis(tenths * 100);
        node.keeper
            .watch_terminating(now, MEMORY, &node.pods, &node.usage);
    }
    let seen = node.withheld(2, &[(MEMORY, 40 * MI)]);
    assert!(
        matches!(seen, Some(Withheld::DyingPodsRelease { .. })),
        "{seen:?}"
    );
}

#[test]
fn the_credit_of_a_soft_victim_lasts_through_its_grace_and_never_five_seconds_more() {
    let mut node = large_one_dying(evictd(threshold()), 30);
    assert_eq!(node.withheld(30, &[(MEMORY, 50 * MI)]), Some(enough()));
    let next = node.evicted(34, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn a_grace_cut_short_shortens_the_credit() {
    let mut node = large_one_dying(evictd(threshold()), 30);
    dies(&mut node.keeper, "uid-large", 3, 3);
    assert_eq!(node.withheld(4, &[(MEMORY, 50 * MI)]), Some(enough()));
    let next = node.evicted(5, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn a_credit_that_is_not_enough_delays_no_eviction() {
    let mut node = large_one_dying(evictd(threshold()), 0);
    let next = node.evicted(1, &[(MEMORY, 39 * MI)]);
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn a_credit_has_to_reach_the_minimum_reclaim_too() {
    let value = [("memory.available", "100Mi")];
    for (reclaim, held_back) in [("10Mi", true), ("11Mi", false)] {
        let thresholds = hard_with_reclaim(&value, &[("memory.available", reclaim)]);
        let mut node = large_one_dying(evictd(thresholds), 0);
        let withheld = node.withheld(1, &[(MEMORY, 50 * MI)]);
        assert_eq!(withheld.is_some(), held_back, "{reclaim}");
    }
}

#[test]
fn a_pod_that_was_chosen_is_not_chosen_again() {
    let mut node = Node::new(evictd(threshold()), vec![(priority("a", 0), memory(MI))]);
    assert!(node.evicted(0, &[(MEMORY, 0)]).is_some());
    dies(&mut node.keeper, "uid-a", 0, 0);
    assert_eq!(node.withheld(10, &[(MEMORY, 0)]), Some(Withheld::AllSpared));
    fails(&mut node.keeper, "uid-a", 10);
    assert_eq!(node.withheld(69, &[(MEMORY, 0)]), Some(Withheld::AllSpared));
    node.keeper.on_event(
        at(70),
        Event::Observed(vec![PodState {
            uid: "uid-a".to_owned(),
            listed: true,
            ..PodState::default()
        }]),
    );
    assert!(node.evicted(70, &[(MEMORY, 0)]).is_some());
}

#[test]
fn a_sample_from_before_the_last_action_evicts_no_pod_by_ours_and_one_by_the_kubelets() {
    let two = || {
        vec![
            (priority("a", 0), memory(MI)),
            (priority("b", 1), memory(MI)),
        ]
    };
    for (rules, evicts) in [(evictd(threshold()), false), (kubelet(threshold()), true)] {
        let mut node = Node::new(rules, two());
        // Sampled at second 5, acted upon at second 10.
        node.keeper.observe(at(10), &seen(5, &[(MEMORY, 0)]));
        assert!(node.decide(10).unwrap().eviction.is_some());
        node.end(10, "a");
        // Newer than the last sample, yet from a time at which the victim still held its memory.
        let step = node.keeper.observe(at(11), &seen(9, &[(MEMORY, 0)]));
        assert_eq!(matches!(step, Step::Rank(_)), evicts);
        let step = node.keeper.observe(at(12), &seen(11, &[(MEMORY, 0)]));
        assert!(matches!(step, Step::Rank(_)));
    }
}

#[test]
fn a_pod_deleted_by_another_client_stays_a_candidate_and_ranks_before_its_equals() {
    let spec = json!({ "terminationGracePeriodSeconds": 600 });
    let pods = || {
        vec![
            (priority("running", 0), memory(90 * MI)),
            (terminating("ending", &spec), memory(80 * MI)),
        ]
    };
    let mut ours = Node::new(evictd(threshold()), pods());
    let eviction = ours.cycle(0, &[(MEMORY, 0)]).unwrap().eviction.unwrap();
    assert_eq!(eviction.pod, "default/ending");
    assert_eq!(eviction.grace_period_seconds, 0, "its grace is cut");
    let mut kubelets = Node::new(kubelet(threshold()), pods());
    let victim = kubelets.evicted(0, &[(MEMORY, 0)]);
    assert_eq!(victim.as_deref(), Some("default/running"));
}

#[test]
fn an_ending_pod_within_its_request_does_not_go_before_one_above() {
    let spec = crate::node::requests(&json!({ "memory": "1Gi" }));
    let pods = vec![
        (terminating("ending", &spec), memory(MI)),
        (priority("running", 0), memory(MI)),
    ];
    let mut node = Node::new(evictd(threshold()), pods);
    let victim = node.evicted(0, &[(MEMORY, 0)]);
    assert_eq!(victim.as_deref(), Some("default/running"));
}

#[test]
fn nothing_of_a_dying_pod_is_credited_to_a_soft_threshold_after_its_time() {
    let thresholds = soft("memory.available", "100Mi", "10s", "0");
    let pods = vec![
        (priority("a", 0), memory(60 * MI)),
        (priority("b", 1), memory(60 * MI)),
    ];
    let mut node = Node::new(evictd(thresholds), pods);
    assert_eq!(node.evicted(0, &[(MEMORY, 50 * MI)]), None);
    let first = node.cycle(10, &[(MEMORY, 50 * MI)]).unwrap();
    let grace = first.eviction.unwrap().grace_period_seconds;
    assert_eq!(grace, 30, "what a pod gets that does not say");
    dies(&mut node.keeper, "uid-a", 10, 10 + grace);
    assert!(node.withheld(39, &[(MEMORY, 50 * MI)]).is_some());
    let next = node.evicted(42, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/b"));
}
