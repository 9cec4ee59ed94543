//! Signals that no kubelet has: pressure and swap (users #5, #7).

use crate::node::{GI, MI, Node, at, evictd, kubelet, maps, memory, ranking, requesting};
use crate::node::{dies, gone};
use evictd_decision::{Decision, Withheld};
use evictd_eviction::{Rules, Step, rules::MemoryAndSwap};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{
    NodeCondition, Observation, Observations, Signal, Threshold, pressure::Stall,
};
use evictd_usage::{PodUsage, Summary, figure::Figure};
use proptest::prelude::*;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;
const SWAP: Signal = Signal::SwapAvailable;

fn ours(hard: &[(&str, &str)]) -> Vec<Threshold> {
    maps(hard, &[], &[], &[]).parse_with_ours().unwrap()
}

fn two_pods() -> Vec<(Pod, Option<PodUsage>)> {
    vec![
        (requesting("large", "1Mi"), memory(60 * MI)),
        (requesting("small", "1Mi"), memory(20 * MI)),
    ]
}

fn full_avg10(percent: u16) -> Stall {
    Stall {
        some: [percent * 100; 3],
        full: [percent * 100, 0, 0],
    }
}

/// A cycle at that second in which the machine's memory stalls like this.
fn stalled(node: &mut Node, second: i64, stall: Stall) -> Option<Decision> {
    let mut seen = Observations::default();
    seen.set_stall(Signal::MemoryPsi, Some(stall), Some(at(second)));
    match node.keeper.observe(at(second), &seen) {
        Step::Rank(_) => node.decide(second),
        _ => None,
    }
}

fn victim(decision: Option<Decision>) -> Option<String> {
    Some(decision?.eviction?.pod)
}

#[test]
fn pressure_acts_above_its_limit_for_its_time_and_raises_the_condition_at_once() {
    let thresholds = ours(&[("memory.psi", "full avg10 > 20% for 5s")]);
    assert!(thresholds[0].is_hard());
    let mut node = Node::new(evictd(thresholds), two_pods());
    assert_eq!(victim(stalled(&mut node, 0, full_avg10(20))), None);
    assert_eq!(node.conditions(), []);
    assert_eq!(victim(stalled(&mut node, 1, full_avg10(21))), None);
    assert_eq!(node.conditions(), [NodeCondition::MemoryPressure]);
    // A break begins the time anew.
    assert_eq!(victim(stalled(&mut node, 4, full_avg10(20))), None);
    assert_eq!(victim(stalled(&mut node, 5, full_avg10(30))), None);
    assert_eq!(victim(stalled(&mut node, 9, full_avg10(30))), None);
    let decision = stalled(&mut node, 10, full_avg10(31)).unwrap();
    let acting = decision.threshold.clone().unwrap();
    assert_eq!(acting.first_observed_at, at(5));
    assert_eq!(
        decision.eviction.as_ref().unwrap().message,
        "The node was under pressure on resource: memory. Threshold: memory.psi full avg10 > 20% for 5s, observed: 31%. \
         Pod large was using 60Mi, request is 1Mi, has larger consumption of memory. "
    );
    assert_eq!(decision.expected_gain, None);
    let shown = serde_json::to_value(&decision).unwrap();
    assert_eq!(shown["threshold"]["value"], "full avg10 > 20% for 5s");
    assert_eq!(victim(Some(decision)).as_deref(), Some("default/large"));
}

#[test]
fn each_threshold_looks_at_the_average_that_it_names() {
    let table = [
        ("full avg10 > 20%", true),
        ("full avg60 > 20%", false),
        ("some avg300 > 20%", true),
        ("some avg300 > 30%", false),
    ];
    for (value, acts) in table {
        let mut node = Node::new(evictd(ours(&[("memory.psi", value)])), two_pods());
        let gone = victim(stalled(&mut node, 0, full_avg10(30)));
        assert_eq!(gone.is_some(), acts, "{value}");
    }
}

#[test]
fn an_average_from_before_the_last_eviction_evicts_no_pod() {
    let mut node = Node::new(
        evictd(ours(&[("memory.psi", "full avg10 > 20%")])),
        two_pods(),
    );
    let first = victim(stalled(&mut node, 0, full_avg10(60)));
    assert_eq!(first.as_deref(), Some("default/large"));
    dies(&mut node.keeper, "uid-large", 0, 0);
    gone(&mut node.keeper, "uid-large", 0);
    let gone = (node.pods.remove(0), node.usage.pods.remove(0));
    assert_eq!(gone.0.name, "large");
    for second in 3..13 {
        // Seen gone at second 3; ten seconds later the average knows nothing of before.
        assert_eq!(
            victim(stalled(&mut node, second, full_avg10(60))),
            None,
            "{second}"
        );
    }
    let next = victim(stalled(&mut node, 13, full_avg10(60)));
    assert_eq!(next.as_deref(), Some("default/small"));
}

#[test]
fn while_a_pod_terminates_no_other_pod_is_evicted_for_pressure() {
    let mut node = Node::new(
        evictd(ours(&[("memory.psi", "full avg10 > 20%")])),
        two_pods(),
    );
    assert!(stalled(&mut node, 0, full_avg10(60)).is_some());
    dies(&mut node.keeper, "uid-large", 0, 30);
    let decision = stalled(&mut node, 15, full_avg10(60)).unwrap();
    let dying = Withheld::DyingPodsRelease {
        pods: vec!["default/large".to_owned()],
        release: Quantity::ZERO,
        resource: evictd_signals::StarvedResource::Memory,
    };
    assert_eq!(decision.withheld, Some(dying));
    assert!(
        decision
            .why
            .starts_with("default/large is already terminating"),
        "{}",
        decision.why
    );
}

#[test]
fn pressure_that_evictions_do_not_lower_stops_them() {
    let pods = (0..9).map(|number| {
        let name = format!("p{number}");
        (requesting(&name, "1Mi"), memory(9 * MI))
    });
    let thresholds = ours(&[("memory.psi", "full avg10 > 20%")]);
    let mut node = Node::new(evictd(thresholds), pods.collect());
    let mut second = 0;
    for number in 0..3 {
        let gone = victim(stalled(&mut node, second, full_avg10(60)));
        assert_eq!(gone, Some(format!("default/p{number}")), "at {second} s");
        node.end(second, &format!("p{number}"));
        // The look that sees it gone, and one when the average is believed again.
        assert_eq!(victim(stalled(&mut node, second + 1, full_avg10(60))), None);
        second += 11;
    }
    let decision = stalled(&mut node, second, full_avg10(60)).unwrap();
    assert_eq!(decision.withheld, Some(Withheld::Futile { evictions: 3 }));
}

#[test]
fn minimum_reclaim_of_pressure_is_in_percent_of_the_time() {
    let maps = maps(
        &[("memory.psi", "full avg10 > 20%")],
        &[],
        &[],
        &[("memory.psi", "5%")],
    );
    let mut node = Node::new(evictd(maps.parse_with_ours().unwrap()), two_pods());
    assert!(stalled(&mut node, 0, full_avg10(21)).is_some());
    for (second, percent, held) in [(1, 16, true), (2, 15, false), (3, 16, false)] {
        let _ = stalled(&mut node, second, full_avg10(percent));
        assert_eq!(node.keeper.thresholds_met().count() > 0, held, "{percent}");
    }
}

#[test]
fn a_soft_pressure_takes_its_time_from_either_place_and_not_from_both() {
    let soft = |value: &str, grace: &[(&str, &str)]| {
        maps(&[], &[("memory.psi", value)], grace, &[]).parse_with_ours()
    };
    let minute = [("memory.psi", "1m")];
    for (value, grace) in [
        ("some avg60 > 5% for 1m", &[][..]),
        ("some avg60 > 5%", &minute),
    ] {
        let threshold = &soft(value, grace).unwrap()[0];
        assert!(!threshold.is_hard());
        assert_eq!(threshold.acts_after().as_secs(), 60, "{value}");
    }
    let first = |value, grace| soft(value, grace).unwrap_err()[0].to_string();
    assert_eq!(
        first("some avg60 > 5%", &[]),
        "grace period must be specified for the soft eviction threshold memory.psi"
    );
    assert_eq!(
        first("some avg60 > 5% for 1m", &minute),
        "grace period is specified twice for the soft eviction threshold memory.psi"
    );
}

#[test]
fn the_kubelet_has_none_of_these_signals() {
    for signal in ["memory.psi", "io.psi", "swap.available"] {
        let value = if signal == SWAP.as_str() {
            "10%"
        } else {
            "full avg10 > 5%"
        };
        let maps = maps(&[(signal, value)], &[], &[], &[]);
        let error = maps.parse().unwrap_err()[0].to_string();
        assert_eq!(error, format!("unsupported eviction signal {signal}"));
        assert_eq!(maps.parse_with_ours().unwrap().len(), 1);
    }
}

fn swap_rules(memory_and_swap: MemoryAndSwap) -> Rules {
    let hard = [("memory.available", "100Mi"), ("swap.available", "10%")];
    Rules {
        memory_and_swap,
        ..evictd(ours(&hard))
    }
}

#[test]
fn memory_and_swap_each_on_its_own_or_only_together() {
    use MemoryAndSwap::{Both, Either};
    let (low, plenty) = (50 * MI, 500 * MI);
    // Memory left, swap left (none: no swap), the rule, whether somebody goes.
    let table = [
        (low, Some(plenty), Either, true),
        (plenty, Some(low), Either, true),
        (plenty, Some(plenty), Either, false),
        (low, None, Either, true),
        (plenty, None, Either, false),
        (low, Some(plenty), Both, false),
        (plenty, Some(low), Both, false),
        (low, Some(low), Both, true),
        (low, None, Both, true),
        (plenty, None, Both, false),
    ];
    for (memory, swap, rule, goes) in table {
        let mut node = Node::new(swap_rules(rule), two_pods());
        let seen: Vec<_> = [Some((MEMORY, memory)), swap.map(|left| (SWAP, left))]
            .into_iter()
            .flatten()
            .collect();
        let case = format!("{memory} {swap:?} {rule:?}");
        assert_eq!(node.evicted(0, &seen).is_some(), goes, "{case}");
        let condition = node.conditions() == [NodeCondition::MemoryPressure];
        assert_eq!(condition, goes, "{case}");
    }
}

#[test]
fn the_soft_pair_is_another_pair_and_its_grace_begins_when_both_are_low() {
    let maps = maps(
        &[("memory.available", "10Mi")],
        &[("memory.available", "100Mi"), ("swap.available", "10%")],
        &[("memory.available", "10s"), ("swap.available", "10s")],
        &[],
    );
    let rules = Rules {
        memory_and_swap: MemoryAndSwap::Both,
        ..evictd(maps.parse_with_ours().unwrap())
    };
    let mut node = Node::new(rules, two_pods());
    assert_eq!(node.evicted(0, &[(MEMORY, 50 * MI), (SWAP, GI)]), None);
    assert_eq!(node.evicted(20, &[(MEMORY, 50 * MI), (SWAP, MI)]), None);
    assert_eq!(node.evicted(29, &[(MEMORY, 50 * MI), (SWAP, MI)]), None);
    assert!(node.evicted(30, &[(MEMORY, 50 * MI), (SWAP, MI)]).is_some());
    // The hard threshold on memory has no partner and acts alone.
    assert!(node.evicted(40, &[(MEMORY, 5 * MI), (SWAP, GI)]).is_some());
}

#[test]
fn for_io_a_pod_with_more_than_an_even_share_of_the_traffic_is_evicted_without_a_condition() {
    let busy = |bytes| {
        Some(PodUsage {
            io: Some(Figure::bytes(bytes)),
            ..PodUsage::default()
        })
    };
    let cycle = |pods: Vec<(Pod, Option<PodUsage>)>| {
        let mut node = Node::new(evictd(ours(&[("io.psi", "some avg10 > 20% for 2s")])), pods);
        let mut decision = None;
        for second in [0, 2] {
            let mut seen = Observations::default();
            seen.set_stall(Signal::IoPsi, Some(full_avg10(60)), Some(at(second)));
            if let Step::Rank(_) = node.keeper.observe(at(second), &seen) {
                decision = node.decide(second);
            }
        }
        assert_eq!(node.conditions(), []);
        decision.unwrap()
    };
    let decision = cycle(vec![
        (crate::node::priority("modest", 0), busy(MI)),
        (crate::node::priority("scribe", 100), busy(80 * MI)),
        (crate::node::priority("reader", 100), busy(90 * MI)),
        (crate::node::priority("idle", 0), busy(0)),
    ]);
    assert_eq!(decision.eviction.as_ref().unwrap().pod, "default/reader");
    assert!(
        decision
            .why
            .contains("read and wrote 90Mi, 47.2Mi above an even share"),
        "{}",
        decision.why
    );
    let idle = || (crate::node::priority("idle", 0), busy(0));
    let unknown = || (crate::node::priority("unknown", 0), None);
    for pods in [vec![idle(), unknown()], vec![unknown()]] {
        assert_eq!(cycle(pods).withheld, Some(Withheld::NoIo));
    }
    let alone = cycle(vec![(crate::node::priority("alone", 0), busy(MI))]);
    assert_eq!(alone.eviction.unwrap().pod, "default/alone");
}

#[test]
fn a_hard_pressure_cuts_no_grace_before_it_may_act_itself() {
    let rules = evictd(ours(&[("memory.psi", "full avg10 > 20% for 30s")]));
    let mut node = Node::new(rules, two_pods());
    for (second, percent, since) in [(0, 60, None), (29, 60, None), (30, 60, Some(at(30)))] {
        let _ = stalled(&mut node, second, full_avg10(percent));
        assert_eq!(node.keeper.hard_since(), since, "{second}");
    }
    let _ = stalled(&mut node, 31, full_avg10(0));
    assert_eq!(node.keeper.hard_since(), None);
    let soft = crate::node::soft("memory.available", "100Mi", "2s", "0");
    let mut node = Node::new(evictd(soft), two_pods());
    node.look(0, &[(MEMORY, 0)]);
    node.look(2, &[(MEMORY, 0)]);
    assert_eq!(node.keeper.hard_since(), None);
}

#[test]
fn a_busy_disk_without_a_victim_hides_no_other_signal_hard_or_soft() {
    let inodes = Signal::NodefsInodesFree;
    let hard = [
        ("io.psi", "some avg10 > 20% for 2s"),
        ("nodefs.available", "1Mi"),
        ("pid.available", "1"),
    ];
    let soft = [("nodefs.inodesFree", "1")];
    let graces = [("nodefs.inodesFree", "2s")];
    let rules = evictd(maps(&hard, &soft, &graces, &[]).parse_with_ours().unwrap());
    let table: [(&[Signal], Signal); 4] = [
        (&[Signal::NodefsAvailable], Signal::NodefsAvailable),
        (&[Signal::PidAvailable, inodes], Signal::PidAvailable),
        (&[inodes], inodes),
        (&[], Signal::IoPsi),
    ];
    for (low, first) in table {
        let pods = vec![(crate::node::priority("a", 0), None)];
        let mut node = Node::new(rules.clone(), pods);
        let low: Vec<_> = low.iter().map(|signal| (*signal, 0)).collect();
        for second in [0, 2] {
            let mut seen = crate::node::seen(second, &low);
            seen.set_stall(Signal::IoPsi, Some(full_avg10(60)), Some(at(second)));
            node.keeper.observe(at(second), &seen);
        }
        let decision = node.decide(2).unwrap();
        assert_eq!(decision.acting_signal(), Some(first));
        let hides = decision.withheld == Some(Withheld::NoIo);
        assert_eq!(hides, first == Signal::IoPsi);
    }
}

fn swapped(working_set: i64, swap: i64) -> PodUsage {
    PodUsage {
        working_set: Some(Figure::bytes(working_set)),
        swap: Some(Figure::bytes(swap)),
        ..PodUsage::default()
    }
}

#[test]
fn usage_of_swap_counts_with_ours_and_not_with_the_kubelet() {
    let pods = vec![
        (requesting("in-memory", "1Mi"), Some(swapped(60 * MI, 0))),
        (
            requesting("in-swap", "1Mi"),
            Some(swapped(20 * MI, 80 * MI)),
        ),
    ];
    let with_ours = ranking(&swap_rules(MemoryAndSwap::Either), MEMORY, &pods);
    assert_eq!(&*with_ours[0].pod, "default/in-swap");
    let memory = evictd_signals::StarvedResource::Memory;
    assert_eq!(
        with_ours[0].uses(memory),
        "uses 100Mi (80Mi of it in swap), 99Mi above its request of 1Mi"
    );
    assert_eq!(with_ours[0].gain, Some(Quantity::bytes(20 * MI)));
    let for_swap = ranking(&swap_rules(MemoryAndSwap::Either), SWAP, &pods);
    assert_eq!(for_swap[0].gain, Some(Quantity::bytes(80 * MI)));
    assert_eq!(for_swap[1].gain, Some(Quantity::ZERO));
    let shown = serde_json::to_value(&with_ours[0]).unwrap();
    assert_eq!(
        (&shown["usage"], &shown["swap"]),
        (&json!("100Mi"), &json!("80Mi"))
    );
    let kubelets = ranking(&kubelet(Vec::new()), MEMORY, &pods);
    assert_eq!(&*kubelets[0].pod, "default/in-memory");
    assert_eq!(kubelets[1].usage, Some(Quantity::bytes(20 * MI)));
}

#[test]
fn pressure_and_swap_are_read_from_a_summary() {
    let psi = |avg10: f64| json!({ "total": 1, "avg10": avg10, "avg60": 1.5, "avg300": 0 });
    let node = |swap| {
        let node = json!({
            "memory": { "availableBytes": 7, "workingSetBytes": 3, "psi": { "full": psi(12.34), "some": psi(50.0) } },
            "io": { "time": "2030-01-01T00:00:00Z", "psi": { "full": psi(0.0), "some": psi(7.0) } },
            "swap": swap,
        });
        let summary: Summary = serde_json::from_value(json!({ "node": node })).unwrap();
        summary.observations()
    };
    let seen = node(json!({ "swapAvailableBytes": 30, "swapUsageBytes": 70 }));
    let left = |signal| {
        seen.get(signal)
            .map(|seen: &Observation| (seen.available, seen.capacity))
    };
    assert_eq!(left(Signal::MemoryPsi), Some((10_000 - 1234, 10_000)));
    assert_eq!(left(Signal::IoPsi), Some((10_000, 10_000)));
    assert_eq!(left(SWAP), Some((30, 100)));
    let some = ours(&[("io.psi", "some avg10 > 5% for 2s")]);
    let figure = seen.of(some[0].signal, some[0].value).unwrap();
    assert_eq!(figure.available, 10_000 - 700);
    for none in [
        json!({ "swapAvailableBytes": 0, "swapUsageBytes": 0 }),
        json!(null),
        json!({}),
    ] {
        assert_eq!(node(none).get(SWAP), None);
    }
}

proptest! {
    /// Whatever is seen, nobody goes for pressure before its time, or within the window after the last one.
    #[test]
    fn pressure_never_acts_early(
        looks in prop::collection::vec((1_i64..8, 0_u16..100), 1..40),
        lasting in 0_i64..10,
    ) {
        let value = format!("full avg10 > 20% for {lasting}s");
        let pods = (0..50).map(|number| (requesting(&format!("p{number}"), "1Mi"), memory(MI)));
        let mut node = Node::new(
            Rules { futility: None, ..evictd(ours(&[("memory.psi", &value)])) },
            pods.collect(),
        );
        let (mut second, mut over_since, mut last) = (0, None, None::<i64>);
        for (later, percent) in looks {
            second += later;
            over_since = (percent > 20).then(|| over_since.unwrap_or(second));
            let Some(decision) = stalled(&mut node, second, full_avg10(percent)) else { continue };
            let since = over_since.expect("it is above its limit");
            prop_assert!(second - since >= lasting);
            prop_assert!(last.is_none_or(|last| second - last >= 10));
            last = Some(second);
            let gone = decision.eviction.unwrap().pod;
            node.end(second, gone.strip_prefix("default/").unwrap());
        }
    }
}
