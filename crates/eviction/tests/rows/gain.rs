//! What an eviction gains: next to nothing, no more than a minimum reclaim needs, or nothing for long because what may
//! not be evicted grows. Capacity is 1 GiB.

use crate::node::{GI, MI, Node, at, hard, hard_with_reclaim, kubelet, memory, pod, priority};
use evictd_decision::{Decision, Shares, UnevictableGrowth, Withheld};
use evictd_eviction::{Answer, Rules, Step};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Observation, Observations, Signal, Threshold};
use evictd_usage::{
    PodUsage,
    figure::{Figure, Source},
};
use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use serde_json::json;

const MEMORY: Signal = Signal::MemoryAvailable;
const KI: i64 = 1 << 10;

fn ours(thresholds: Vec<Threshold>) -> Rules {
    Rules {
        thresholds,
        local_storage_capacity_isolation: false,
        ..Rules::evictd()
    }
}

fn low() -> Vec<Threshold> {
    hard(&[("memory.available", "100Mi")])
}

fn critical(name: &str) -> Pod {
    pod(name, &json!({ "priority": 2_000_000_000 }))
}

fn decoys_and_hogs(hogs: &[i64]) -> Vec<(Pod, Option<PodUsage>)> {
    let decoys = (0..3).map(|number| (priority(&format!("decoy-{number}"), -1), memory(200 * KI)));
    let hogs = hogs.iter().enumerate();
    let hogs = hogs.map(|(number, hog)| (priority(&format!("hog-{number}"), 0), memory(hog * MI)));
    decoys.chain(hogs).collect()
}

/// With 50 MiB missing.
fn decide(rules: Rules, pods: Vec<(Pod, Option<PodUsage>)>) -> Decision {
    let mut node = Node::new(rules, pods);
    node.cycle(0, &[(MEMORY, 50 * MI)]).unwrap()
}

fn victim(decision: &Decision) -> Option<&str> {
    decision.eviction.as_ref().map(|eviction| &*eviction.pod)
}

#[test]
fn a_pod_with_a_negligible_gain_is_evicted_only_where_the_others_do_not_suffice() {
    let small_first = |rules| Rules {
        small_gains_last: false,
        ..rules
    };
    let without_relief = |rules| Rules {
        requires_relief: false,
        ..rules
    };
    let (hog, decoy) = (Some("default/hog-0"), Some("default/decoy-0"));
    let table = [
        ("one hog", ours(low()), &[150][..], hog),
        ("two together", ours(low()), &[26, 25], hog),
        ("switched off", small_first(ours(low())), &[150], decoy),
        ("a kubelet", kubelet(low()), &[150], decoy),
        (
            "every pod is needed",
            ours(hard(&[("memory.available", "51712Ki")])),
            &[],
            None,
        ),
        (
            "they do not suffice",
            without_relief(ours(low())),
            &[20],
            decoy,
        ),
    ];
    for (case, rules, hogs, expected) in table {
        let decision = decide(rules, decoys_and_hogs(hogs));
        assert_eq!(
            victim(&decision),
            expected.or(decoy.filter(|_| hogs.is_empty())),
            "{case}: {}",
            decision.why
        );
    }
    let decision = decide(ours(low()), decoys_and_hogs(&[150]));
    let told = "3 pods are passed over: they would free less than 1 % of the 50Mi that are missing";
    assert!(decision.why.contains(told), "{}", decision.why);
    assert_eq!(decision.runner_up, None);
}

#[test]
fn a_pod_that_holds_little_is_not_evicted_after_futile_evictions_either() {
    let mut pods = decoys_and_hogs(&[40, 40]);
    pods.extend((0..3).map(|number| (priority(&format!("small-{number}"), -2), memory(2 * MI))));
    let mut node = Node::new(ours(low()), pods);
    for number in 0..3 {
        let small = format!("small-{number}");
        let second = 10 * number;
        let victim = node.evicted(second, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim, Some(format!("default/{small}")));
        node.end(second, &small);
    }
    // None of the hogs holds all 50 MiB.
    let next = node.evicted(30, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/hog-0"));
}

#[test]
fn a_pod_without_a_gain_is_never_evicted_and_an_unknown_gain_is_not_zero() {
    // What it has in swap does not come back to memory.
    let swapped = PodUsage {
        working_set: Some(Figure::bytes(0)),
        swap: Some(Figure::bytes(10 * MI)),
        ..PodUsage::default()
    };
    let idle = (priority("idle", -1), Some(swapped));
    let hog = (priority("hog", 0), memory(60 * MI));
    let rules = Rules {
        small_gains_last: false,
        ..ours(low())
    };
    let decision = decide(rules, vec![idle, hog.clone()]);
    assert_eq!(victim(&decision), Some("default/hog"));
    // An unknown gain is not proven: it lifts nothing.
    let unknown = (priority("unknown", -1), None);
    let decision = decide(
        ours(low()),
        vec![unknown.clone(), (priority("a", 0), memory(49 * MI))],
    );
    assert!(matches!(decision.withheld, Some(Withheld::NoRelief { .. })));
    let first = Rules {
        unknown_stats: evictd_eviction::rules::UnknownStats::First,
        ..ours(low())
    };
    assert_eq!(
        victim(&decide(first, vec![unknown, hog])),
        Some("default/unknown")
    );
}

/// A threshold of 100 MiB that acts until 300 MiB are left.
fn until_300() -> Vec<Threshold> {
    let reclaim = [("memory.available", "200Mi")];
    hard_with_reclaim(&[("memory.available", "100Mi")], &reclaim)
}

#[test]
fn a_minimum_reclaim_evicts_no_pod_where_it_is_out_of_reach() {
    let pods = |held: &[i64]| {
        let held = held.iter().enumerate();
        let pods =
            held.map(|(number, held)| (priority(&format!("p{number}"), 0), memory(held * MI)));
        pods.collect::<Vec<_>>()
    };
    // Of 300 MiB 50 are left: 250 together reach it.
    let decision = decide(ours(until_300()), pods(&[200, 50]));
    assert_eq!(decision.shares.unwrap().short, Quantity::bytes(250 * MI));
    assert_eq!(victim(&decision), Some("default/p0"));
    // They cannot, but they can end the shortage.
    let decision = decide(ours(until_300()), pods(&[60, 50]));
    assert_eq!(decision.shares.unwrap().short, Quantity::bytes(50 * MI));
    assert_eq!(victim(&decision), Some("default/p0"));
    // The shortage is over, and nobody can lift it to 300.
    let mut node = Node::new(ours(until_300()), pods(&[60, 50, 139]));
    assert_eq!(
        node.evicted(0, &[(MEMORY, 50 * MI)]).as_deref(),
        Some("default/p2")
    );
    node.end(0, "p2");
    let held = node.cycle(10, &[(MEMORY, 189 * MI)]).unwrap();
    assert!(
        matches!(held.withheld, Some(Withheld::NoRelief { .. })),
        "{}",
        held.why
    );
    let told = "memory.available is 189Mi, above its threshold of 100Mi, and held until 300Mi by the minimum reclaim";
    assert!(held.why.contains(told), "{}", held.why);
    // With one byte more they can.
    let lifted = node.cycle(20, &[(MEMORY, 190 * MI)]).unwrap();
    assert_eq!(victim(&lifted), Some("default/p0"));
    assert!(
        lifted
            .why
            .contains("held until 300Mi by the minimum reclaim"),
        "{}",
        lifted.why
    );
    // The kubelet goes on.
    let mut node = Node::new(kubelet(until_300()), pods(&[60, 50]));
    node.cycle(0, &[(MEMORY, 50 * MI)]).unwrap();
    let next = node.evicted(10, &[(MEMORY, 189 * MI)]);
    assert_eq!(next.as_deref(), Some("default/p0"));
}

#[test]
fn terminating_pods_are_enough_where_they_end_the_shortage_and_no_more_can_be_reached() {
    let pods = ["a", "b"].map(|name| (priority(name, 0), memory(60 * MI)));
    let mut node = Node::new(ours(until_300()), pods.into());
    assert_eq!(
        node.evicted(0, &[(MEMORY, 50 * MI)]).as_deref(),
        Some("default/a")
    );
    crate::node::dies(&mut node.keeper, "uid-a", 0, 0);
    let waits = node.withheld(1, &[(MEMORY, 50 * MI)]);
    assert!(
        matches!(waits, Some(Withheld::DyingPodsRelease { .. })),
        "{waits:?}"
    );
}

/// A node whose memory is read every 50 ms, on its way below its threshold of 100 MiB.
struct Falling {
    node: Node,
    millisecond: i64,
    /// Used by the host.
    host: i64,
    measured: usize,
}

impl Falling {
    fn new(pods: Vec<(Pod, Option<PodUsage>)>, host: i64) -> Self {
        Self {
            node: Node::new(ours(low()), pods),
            millisecond: 0,
            host,
            measured: 0,
        }
    }

    fn now(&self) -> Timestamp {
        at(0) + SignedDuration::from_millis(self.millisecond)
    }

    /// 50 ms later the host and each pod hold this many MiB more; the decision, if there is one.
    fn step(&mut self, host: i64, pods: &[i64]) -> Option<Decision> {
        self.millisecond += 50;
        self.host += host;
        let mut taken = self.host * MI;
        for (usage, grows) in self.node.usage.pods.iter_mut().zip(pods) {
            let held = usage.as_mut()?.working_set.as_mut()?;
            held.value += grows * MI;
            taken += held.value;
        }
        let now = self.now();
        let memory = Observation {
            available: GI - taken,
            capacity: GI,
            time: Some(now),
        };
        let seen: Observations = [(MEMORY, memory)].into_iter().collect();
        let (pods, usage) = (&self.node.pods[..], &self.node.usage);
        let mut step = self.node.keeper.begin(now, &seen);
        loop {
            let answer = match step {
                Step::Measure(signal) => {
                    self.measured += 1;
                    Answer::Measured(signal, pods, usage)
                }
                Step::Rank(need) => Answer::Ranked {
                    need,
                    pods,
                    usage,
                    fresh: None,
                },
                Step::Rest | Step::LocalStorage | Step::Reclaim(_) | Step::Watch(_) => return None,
            };
            let (next, decisions) = self.node.keeper.answer(now, answer);
            if let Some(decision) = decisions.into_iter().next() {
                return Some(decision);
            }
            step = next;
        }
    }

    /// The first decision while it falls so.
    fn until_decided(&mut self, host: i64, pods: &[i64]) -> Decision {
        (0..60).find_map(|_| self.step(host, pods)).unwrap()
    }
}

fn growth(decision: &Decision) -> Option<&UnevictableGrowth> {
    match &decision.withheld {
        Some(Withheld::NoRelief { growth, .. }) => growth.as_ref(),
        _ => None,
    }
}

fn bystanders() -> Vec<(Pod, Option<PodUsage>)> {
    let pods = ["cron", "mail", "api"].map(|name| (priority(name, 0), memory(50 * MI)));
    pods.into()
}

#[test]
fn no_pod_is_evicted_for_a_growing_critical_pod_and_it_is_named() {
    let mut pods = bystanders();
    pods.push((critical("agent"), memory(100 * MI)));
    let mut falling = Falling::new(pods, 300);
    let decision = falling.until_decided(0, &[0, 0, 0, 40]);
    assert!(
        falling.measured > 1,
        "who grows is known before the crossing"
    );
    let growth = growth(&decision).unwrap_or_else(|| panic!("{}", decision.why));
    assert_eq!(growth.pod.as_deref(), Some("default/agent"));
    assert_eq!(growth.per_second, Quantity::bytes(800 * MI));
    let told = "default/agent grows and may not be evicted (critical priority): by 800Mi a second, so that in 10 s nothing would be left of what evictions free";
    assert!(decision.why.starts_with(told), "{}", decision.why);
    // It goes on so to the end, and nobody is evicted.
    for _ in 0..2 {
        assert!(
            falling
                .step(0, &[0, 0, 0, 20])
                .is_none_or(|next| victim(&next).is_none())
        );
    }
    // It stops: now an eviction helps, and comes within a second.
    let next = (0..20).find_map(|_| {
        let decision = falling.step(0, &[0; 4])?;
        decision.eviction
    });
    assert!(next.is_some());
    assert!(falling.millisecond < 2000, "{}", falling.millisecond);
}

#[test]
fn no_pod_is_evicted_for_a_growing_program_of_the_host() {
    let mut falling = Falling::new(bystanders(), 300);
    let decision = falling.until_decided(40, &[0; 3]);
    assert_eq!(growth(&decision).unwrap().pod, None);
    let told = "programs of the host grow and cannot be evicted: by 800Mi a second";
    assert!(decision.why.starts_with(told), "{}", decision.why);
}

#[test]
fn usage_of_an_unmeasured_pod_is_not_growth_of_the_host() {
    let mut pods = bystanders();
    pods.push((priority("hog", -1), memory(200 * MI)));
    pods.push((priority("young", 0), None));
    let mut falling = Falling::new(pods, 100);
    let decision = falling.until_decided(40, &[0; 4]);
    assert_eq!(victim(&decision), Some("default/hog"), "{}", decision.why);
}

#[test]
fn a_relief_that_lasts_comes_as_ever() {
    let table = [
        ("the host grows slowly", 310, [0, 0, 0], 1),
        ("the hog grows", 300, [0, 0, 40], 0),
        ("the hog grows, and the host less", 300, [0, 0, 40], 10),
    ];
    for (case, host, pods, grows) in table {
        let hog = if case.contains("slowly") { 500 } else { 100 };
        let mut all = bystanders();
        all[2] = (priority("hog", -1), memory(hog * MI));
        let mut falling = Falling::new(all, host);
        let decision = falling.until_decided(grows, &pods);
        assert_eq!(
            victim(&decision),
            Some("default/hog"),
            "{case}: {}",
            decision.why
        );
    }
}

#[test]
fn a_jump_is_not_growth_and_figures_of_different_moments_are_not_compared() {
    // All at once: nothing is known of what grows, and an eviction helps now.
    let mut falling = Falling::new(bystanders(), 300);
    for _ in 0..10 {
        assert!(falling.step(0, &[0; 3]).is_none());
    }
    let decision = falling.until_decided(490, &[0; 3]);
    assert!(victim(&decision).is_some(), "{}", decision.why);
    // The figures of pods are older than the node's: what they took since is not the host's.
    let mut falling = Falling::new(bystanders(), 300);
    for usage in falling.node.usage.pods.iter_mut().flatten() {
        let memory = &mut usage.working_set;
        *memory = memory.map(|memory| memory.measured(Source::Kubelet, Some(at(-5))));
    }
    let decision = falling.until_decided(40, &[0; 3]);
    assert!(victim(&decision).is_some(), "{}", decision.why);
}

#[test]
fn under_the_kubelets_rules_growth_changes_nothing() {
    let mut falling = Falling::new(bystanders(), 300);
    falling.node = Node::new(kubelet(low()), bystanders());
    let decision = falling.until_decided(40, &[0; 3]);
    assert!(victim(&decision).is_some());
    assert_eq!(falling.measured, 0);
}

#[test]
fn a_record_of_an_older_version_is_read() {
    let shares = serde_json::to_value(Shares::default()).unwrap();
    let mut old = shares;
    old["because"] = json!("noRelief");
    let read: Withheld = serde_json::from_value(old).unwrap();
    assert!(matches!(read, Withheld::NoRelief { growth: None, .. }));
}

proptest! {
    #[test]
    fn a_growing_hog_is_evicted_and_a_growing_host_costs_no_pod(
        hog in 0_i64..60, host in 0_i64..60,
    ) {
        prop_assume!(hog + host > 2);
        let mut all = bystanders();
        all[2] = (priority("hog", -1), memory(100 * MI));
        let mut falling = Falling::new(all, 300);
        let Some(decision) = (0..400).find_map(|_| falling.step(host, &[0, 0, hog])) else {
            return Ok(());
        };
        let shares = decision.shares.unwrap();
        let later = Quantity::bytes(host * 20 * MI * 10);
        if host <= hog || shares.may_go >= shares.short + later {
            prop_assert_eq!(victim(&decision), Some("default/hog"), "{}", decision.why);
        } else if falling.measured > 2 {
            prop_assert!(growth(&decision).is_some(), "{}", decision.why);
        }
    }
}

#[test]
fn swap_that_is_not_known_is_no_gain_of_zero() {
    let known = |swap: Option<i64>| {
        let mut usage = memory(200 * MI).unwrap();
        usage.swap = swap.map(Figure::bytes);
        let mut node = Node::new(
            ours(swap_thresholds()),
            vec![(priority("a", 0), Some(usage))],
        );
        let decision = node.cycle(0, &[(Signal::SwapAvailable, 50 * MI)]);
        decision.unwrap().ranked[0].gain
    };
    assert_eq!(known(None), None);
    assert_eq!(known(Some(0)), Some(Quantity::ZERO));
}

fn swap_thresholds() -> Vec<Threshold> {
    crate::node::maps(&[("swap.available", "100Mi")], &[], &[], &[])
        .parse_with_ours()
        .unwrap()
}
