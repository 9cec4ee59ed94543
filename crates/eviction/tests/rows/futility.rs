//! Evictions that do not help stop (users #28). Capacity is 1 GiB, so that a gain of 1 % is 10.24 MiB; a tenth of what is
//! missing is enough where that is less.

use crate::node::{MI, Node, at, evictd, hard, hard_with_reclaim, kubelet, requesting};
use crate::node::{dies, fails, gone};
use evictd_decision::Withheld;
use evictd_departures::{Event, PodState};
use evictd_eviction::Rules;
use evictd_pod::Pod;
use evictd_signals::{Signal, Threshold};
use evictd_usage::PodUsage;
use jiff::SignedDuration;

const MEMORY: Signal = Signal::MemoryAvailable;
const STOPPED: Option<Withheld> = Some(Withheld::Futile { evictions: 3 });

fn many_pods() -> Vec<(Pod, Option<PodUsage>)> {
    let names = (0..9).map(|number| format!("p{number}"));
    names
        .map(|name| (requesting(&name, "1Mi"), crate::node::memory(9 * MI)))
        .collect()
}

fn threshold() -> Vec<Threshold> {
    hard(&[("memory.available", "100Mi")])
}

/// A cycle in which `p<number>` has to go, and is gone.
fn evict(node: &mut Node, second: i64, available: i64, number: i64) {
    let name = format!("p{number}");
    let victim = node.evicted(second, &[(MEMORY, available)]);
    assert_eq!(victim, Some(format!("default/{name}")), "at {second} s");
    node.end(second, &name);
}

fn after_three_in_vain(rules: Rules) -> Node {
    let mut node = Node::new(rules, many_pods());
    for number in 0..3 {
        evict(&mut node, 10 * number, 50 * MI, number);
    }
    node
}

#[test]
fn three_evictions_in_vain_stop_ours_and_never_the_kubelet() {
    let mut ours = after_three_in_vain(evictd(threshold()));
    assert_eq!(ours.withheld(30, &[(MEMORY, 50 * MI)]), STOPPED);
    let stop = ours.keeper.futile_stops().next();
    assert_eq!(stop, Some((MEMORY, at(30), at(330))));
    let mut kubelets = after_three_in_vain(kubelet(threshold()));
    for number in 3..8 {
        evict(&mut kubelets, 10 * number, 50 * MI, number);
    }
}

#[test]
fn one_that_helped_begins_the_count_anew() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    evict(&mut node, 0, 50 * MI, 0);
    evict(&mut node, 1, 50 * MI, 1);
    // The second one gained 11 MiB, which is more than 1 %.
    evict(&mut node, 2, 61 * MI, 2);
    evict(&mut node, 3, 61 * MI, 3);
    evict(&mut node, 4, 61 * MI, 4);
    assert_eq!(node.withheld(5, &[(MEMORY, 61 * MI)]), STOPPED);
}

#[test]
fn a_gain_below_one_percent_or_a_tenth_of_the_missing_amount_is_too_little() {
    let large = || hard(&[("memory.available", "400Mi")]);
    for (gain, thresholds, stopped) in [
        (10 * MI, large(), true),
        (11 * MI, large(), false),
        (4 * MI, threshold(), true),
        (5 * MI, threshold(), false),
    ] {
        let mut node = Node::new(
            Rules {
                requires_relief: false,
                ..evictd(thresholds)
            },
            many_pods(),
        );
        for number in 0..3 {
            evict(&mut node, number, 50 * MI + number * gain, number);
        }
        let withheld = node.withheld(3, &[(MEMORY, 50 * MI + 3 * gain)]);
        assert_eq!(withheld.is_some(), stopped, "{gain}");
        let cuts_graces = node.keeper.hard_since().is_some();
        assert_eq!(cuts_graces, !stopped, "{gain}");
    }
}

#[test]
fn a_minimum_reclaim_is_the_gain_of_all_evictions_together() {
    let thresholds = hard_with_reclaim(
        &[("memory.available", "100Mi")],
        &[("memory.available", "15Mi")],
    );
    let mut node = Node::new(evictd(thresholds), many_pods());
    for number in 0..3 {
        evict(&mut node, number, 50 * MI + number * 11 * MI, number);
    }
    assert_eq!(node.keeper.futile_stops().count(), 0);
}

#[test]
fn evictions_start_again_when_the_available_amount_has_moved_that_much() {
    for (available, stopped) in [(55, false), (54, true), (46, true), (45, false)] {
        let mut node = after_three_in_vain(evictd(threshold()));
        assert_eq!(node.withheld(30, &[(MEMORY, 50 * MI)]), STOPPED);
        let withheld = node.withheld(31, &[(MEMORY, available * MI)]);
        assert_eq!(withheld.is_some(), stopped, "{available} MiB");
    }
}

#[test]
fn it_starts_again_after_five_minutes_with_a_new_count() {
    let mut node = after_three_in_vain(evictd(threshold()));
    assert_eq!(node.withheld(30, &[(MEMORY, 50 * MI)]), STOPPED);
    assert_eq!(node.withheld(329, &[(MEMORY, 50 * MI)]), STOPPED);
    for number in 3..6 {
        evict(&mut node, 327 + number, 50 * MI, number);
    }
    assert_eq!(node.withheld(333, &[(MEMORY, 50 * MI)]), STOPPED);
}

#[test]
fn the_limit_and_the_pause_are_the_configurations() {
    let mut rules = evictd(threshold());
    rules.futility = Some(evictd_eviction::rules::Futility {
        evictions: 1,
        pause: SignedDuration::from_secs(7),
    });
    let mut node = Node::new(rules, many_pods());
    evict(&mut node, 0, 50 * MI, 0);
    let once = Some(Withheld::Futile { evictions: 1 });
    assert_eq!(node.withheld(1, &[(MEMORY, 50 * MI)]), once);
    assert_eq!(node.withheld(7, &[(MEMORY, 50 * MI)]), once);
    evict(&mut node, 8, 50 * MI, 1);
}

#[test]
fn evictions_further_apart_than_a_stop_would_last_are_no_row() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    for number in 0..6 {
        evict(&mut node, 300 * number, 50 * MI, number);
        assert_eq!(
            node.evicted(300 * number + 100, &[(MEMORY, 200 * MI)]),
            None
        );
        assert_eq!(
            node.evicted(300 * number + 200, &[(MEMORY, 200 * MI)]),
            None
        );
    }
    assert_eq!(node.keeper.futile_stops().count(), 0);
}

#[test]
fn a_rehearsal_does_not_count() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    for second in 0..20 {
        let victim = node.evicted(second, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim.as_deref(), Some("default/p0"));
    }
}

#[test]
fn a_pod_that_could_not_be_ended_does_not_count() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    for second in 0..20 {
        let victim = node.evicted(second, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim.as_deref(), Some("default/p0"));
        dies(&mut node.keeper, "uid-p0", second, second);
        fails(&mut node.keeper, "uid-p0", second);
        // It is passed over for a minute.
        node.keeper.on_event(
            at(second + 60),
            Event::Observed(vec![PodState {
                uid: "uid-p0".to_owned(),
                listed: true,
                ..PodState::default()
            }]),
        );
    }
}

#[test]
fn a_pod_that_will_not_die_counts_as_no_gain_once_its_time_is_up() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    for number in 0..3 {
        let victim = node.evicted(3 * number, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim, Some(format!("default/p{number}")));
        dies(
            &mut node.keeper,
            &format!("uid-p{number}"),
            3 * number,
            3 * number,
        );
    }
    assert_eq!(node.withheld(9, &[(MEMORY, 50 * MI)]), STOPPED);
}

#[test]
fn only_the_victims_own_end_is_weighed() {
    let mut node = Node::new(evictd(threshold()), many_pods());
    for number in 0..4 {
        let second = 10 * number;
        let victim = node.evicted(second, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim, Some(format!("default/p{number}")));
        dies(
            &mut node.keeper,
            &format!("uid-p{number}"),
            second,
            second + 5,
        );
        // Another pod's end says nothing about this one's, which still holds its memory.
        dies(&mut node.keeper, "uid-p8", second, second);
        gone(&mut node.keeper, "uid-p8", second);
        node.look(second + 1, &[(MEMORY, 50 * MI)]);
        node.end(second + 1, &format!("p{number}"));
        node.look(second + 2, &[(MEMORY, 95 * MI)]);
    }
    assert_eq!(node.keeper.futile_stops().count(), 0);
}

#[test]
fn a_stopped_signal_does_not_hide_another() {
    let thresholds = hard(&[("memory.available", "100Mi"), ("pid.available", "100")]);
    let mut node = after_three_in_vain(evictd(thresholds));
    let (memory, pid) = ((MEMORY, 50 * MI), (Signal::PidAvailable, 50));
    assert_eq!(node.withheld(30, &[memory]), STOPPED);
    let decision = node.cycle(31, &[memory, pid]).unwrap();
    assert_eq!(decision.signal, "pid.available");
    assert!(decision.eviction.is_some());
}
