//! Pressure signals: who waits, for what, and who goes for it.

use crate::node::{GI, MI, Node, at, evictd, maps, memory, pod, priority, requesting};
use evictd_decision::{Decision, Withheld};
use evictd_eviction::{Answer, Rules, Step};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{NodeCondition, Observation, Observations, Signal, pressure::Stall};
use evictd_usage::{GroupStall, PodUsage, Stalls, figure::Figure};
use serde_json::json;

/// Stalled for so many percent of the time.
fn percent(percent: u16) -> Stall {
    Stall {
        some: [percent * 100; 3],
        full: [percent * 100; 3],
    }
}

/// A cgroup that waits for so many percent of the time, so many of them at its own limit.
#[allow(
    clippy::unnecessary_wraps,
    reason = "as the code under test takes and returns it"
)]
fn waits(all: u16, own: u16) -> Option<GroupStall> {
    Some(GroupStall {
        all: percent(all),
        at_own_limit: Some(percent(own)),
    })
}

/// Our rules as they are by default, with this hard threshold.
fn rules(signal: &str, value: &str) -> Rules {
    let thresholds = maps(&[(signal, value)], &[], &[], &[]);
    Rules {
        requires_relief: true,
        ..evictd(thresholds.parse_with_ours().unwrap())
    }
}

fn memory_rules() -> Rules {
    rules("memory.psi", "some avg10 > 20%")
}

/// A cycle at that second of a node that is stalled like this, with so much memory available of 1 GiB.
fn cycle(
    node: &mut Node,
    second: i64,
    (signal, stalled): (Signal, u16),
    available: i64,
) -> Option<Decision> {
    let mut seen = Observations::default();
    let observation = Observation {
        available,
        capacity: GI,
        time: Some(at(second)),
    };
    seen.set(Signal::MemoryAvailable, Some(observation));
    seen.set_stall(signal, Some(percent(stalled)), Some(at(second)));
    match node.keeper.observe(at(second), &seen) {
        Step::Rank(_) => node.decide(second),
        _ => None,
    }
}

/// A pod that thrashes inside its own limit, and three that do not wait.
fn thrasher_and_innocents() -> Vec<(Pod, Option<PodUsage>)> {
    vec![
        (requesting("cron", "1Mi"), memory(8 * MI)),
        (requesting("mail", "1Mi"), memory(200 * MI)),
        (requesting("thrasher", "64Mi"), memory(64 * MI)),
        (requesting("api", "1Mi"), memory(100 * MI)),
    ]
}

fn thrashing() -> Stalls {
    Stalls {
        pods: vec![waits(0, 0), waits(0, 0), waits(60, 60), waits(0, 0)],
        others: Vec::new(),
    }
}

fn node(rules: Rules, pods: Vec<(Pod, Option<PodUsage>)>, stalls: Stalls) -> Node {
    let mut node = Node::new(rules, pods);
    node.usage.set_stalls(Signal::IoPsi, stalls.clone());
    node.usage.set_stalls(Signal::MemoryPsi, stalls);
    node
}

fn victim(decision: Option<&Decision>) -> Option<&str> {
    Some(decision?.eviction.as_ref()?.pod.as_str())
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "as the code under test takes and returns it"
)]
fn own_limit(pods: &[&str]) -> Option<Withheld> {
    let pods = pods.iter().map(|pod| (*pod).to_owned()).collect();
    Some(Withheld::OwnLimits { pods })
}

const STALLED: (Signal, u16) = (Signal::MemoryPsi, 60);

#[test]
fn a_pod_that_waits_at_its_own_limit_costs_no_other_pod_and_is_named() {
    // With most of the memory available, and with little of it.
    for (available, pressed) in [(800 * MI, false), (100 * MI, true)] {
        let mut node = node(memory_rules(), thrasher_and_innocents(), thrashing());
        let decision = cycle(&mut node, 0, STALLED, available).unwrap();
        assert_eq!(victim(Some(&decision)), None);
        assert_eq!(decision.withheld, own_limit(&["default/thrasher"]));
        assert!(
            decision
                .why
                .contains("only default/thrasher waits, at a limit of its own"),
            "{}",
            decision.why
        );
        assert_eq!(!node.conditions().is_empty(), pressed);
    }
}

#[test]
fn evict_at_own_limit_evicts_only_the_pod_at_its_limit() {
    let rules = Rules {
        evict_at_own_limit: true,
        ..memory_rules()
    };
    let mut one = node(rules.clone(), thrasher_and_innocents(), thrashing());
    let decision = cycle(&mut one, 0, STALLED, 800 * MI).unwrap();
    assert_eq!(victim(Some(&decision)), Some("default/thrasher"));
    assert_eq!(decision.runner_up, None);
    assert_eq!(
        decision.why,
        "default/thrasher waited at a limit of its own on memory for 60% of the time; no other pod is evicted for that"
    );
    // It may not be evicted, or it waits less than the threshold allows: then no pod is.
    let mut pods = thrasher_and_innocents();
    pods[2].0 = pod("thrasher", &json!({ "priority": 2_000_001_000 }));
    let mut one = node(rules.clone(), pods, thrashing());
    let decision = cycle(&mut one, 0, STALLED, 800 * MI).unwrap();
    assert_eq!(decision.withheld, own_limit(&["default/thrasher"]));
    let several = Stalls {
        pods: vec![waits(18, 18), waits(0, 0), waits(19, 19), waits(0, 0)],
        others: Vec::new(),
    };
    let mut one = node(rules, thrasher_and_innocents(), several);
    let decision = cycle(&mut one, 0, (Signal::MemoryPsi, 36), 800 * MI).unwrap();
    assert_eq!(
        decision.withheld,
        own_limit(&["default/thrasher", "default/cron"])
    );
}

#[test]
fn if_other_pods_wait_as_well_the_pod_with_the_most_above_its_request_is_evicted() {
    let contended = Stalls {
        pods: vec![waits(40, 0), waits(30, 0), waits(60, 60), waits(35, 0)],
        others: Vec::new(),
    };
    let mut one = node(memory_rules(), thrasher_and_innocents(), contended.clone());
    let decision = cycle(&mut one, 0, STALLED, 100 * MI).unwrap();
    assert_eq!(victim(Some(&decision)), Some("default/mail"));
    assert_eq!(one.conditions(), [NodeCondition::MemoryPressure]);
    // The same waits while most of the memory is available: then memory is not what they wait for.
    let mut one = node(memory_rules(), thrasher_and_innocents(), contended);
    let decision = cycle(&mut one, 0, STALLED, 800 * MI).unwrap();
    let plenty = Withheld::MemoryLeft {
        available: Quantity::bytes(800 * MI),
        capacity: Quantity::bytes(GI),
    };
    assert_eq!(decision.withheld, Some(plenty));
    assert_eq!(one.conditions(), []);
}

#[test]
fn more_than_three_tenths_of_the_memory_available_is_most_of_it() {
    let contended = Stalls {
        pods: vec![waits(40, 0); 4],
        others: Vec::new(),
    };
    let pods_left = |available| Observation {
        available,
        capacity: GI / 2,
        time: None,
    };
    // Available of the node, and of the pods' cgroup if that has a limit.
    let table = [
        (GI * 3 / 10 + 2, None, false),
        (GI * 3 / 10 - 2, None, true),
        (GI * 9 / 10, Some(GI / 4), false),
        (GI * 9 / 10, Some(GI / 10), true),
    ];
    for (available, pods, goes) in table {
        let mut one = node(memory_rules(), thrasher_and_innocents(), contended.clone());
        let mut seen = Observations::default();
        seen.set(
            Signal::MemoryAvailable,
            Some(Observation {
                available,
                capacity: GI,
                time: None,
            }),
        );
        seen.set(Signal::AllocatableMemoryAvailable, pods.map(pods_left));
        seen.set_stall(Signal::MemoryPsi, Some(percent(60)), Some(at(0)));
        one.keeper.observe(at(0), &seen);
        let decision = one.decide(0);
        assert_eq!(
            victim(decision.as_ref()).is_some(),
            goes,
            "{available} {pods:?}"
        );
        assert_eq!(!one.conditions().is_empty(), goes, "{available} {pods:?}");
    }
}

#[test]
fn without_pressure_of_pods_no_pod_is_evicted_unless_configured() {
    for signal in [Signal::MemoryPsi, Signal::IoPsi] {
        for (requires_relief, goes) in [(true, false), (false, true)] {
            let rules = Rules {
                requires_relief,
                ..rules(signal.as_str(), "some avg10 > 20%")
            };
            let busy = Some(PodUsage {
                working_set: Some(Figure::bytes(200 * MI)),
                io: Some(Figure::bytes(200 * MI)),
                ..PodUsage::default()
            });
            let unknown = Stalls {
                pods: vec![None],
                others: vec![waits(60, 0).unwrap()],
            };
            let mut one = node(rules, vec![(priority("busy", 0), busy)], unknown);
            let decision = cycle(&mut one, 0, (signal, 60), 100 * MI).unwrap();
            assert_eq!(victim(Some(&decision)).is_some(), goes, "{signal}");
            let why = Some(Withheld::OwnPressureUnknown).filter(|_| !goes);
            assert_eq!(decision.withheld, why, "{signal}");
        }
    }
}

#[test]
fn a_pod_that_holds_almost_nothing_is_not_evicted_for_memory() {
    let contended = |pods| Stalls {
        pods: vec![waits(40, 0); pods],
        others: Vec::new(),
    };
    let decoy = |name: &str| (priority(name, -1), memory(2 * MI));
    let pods = vec![decoy("decoy"), (priority("hog", 0), memory(500 * MI))];
    let mut one = node(memory_rules(), pods, contended(2));
    let decision = cycle(&mut one, 0, STALLED, 100 * MI).unwrap();
    assert_eq!(victim(Some(&decision)), Some("default/hog"));
    let mut one = node(memory_rules(), vec![decoy("a"), decoy("b")], contended(2));
    let decision = cycle(&mut one, 0, STALLED, 100 * MI).unwrap();
    let least = Quantity::bytes(GI / 100);
    assert_eq!(decision.withheld, Some(Withheld::HoldsTooLittle { least }));
}

#[test]
fn a_throttled_pod_costs_no_other_reader_and_a_full_device_ends_the_one_that_reads_most() {
    let busy = |bytes| {
        Some(PodUsage {
            io: Some(Figure::bytes(bytes)),
            ..PodUsage::default()
        })
    };
    let io = (Signal::IoPsi, 90);
    let run = |throttled, reader: u16, hog: u16, switch| {
        let rules = Rules {
            evict_at_own_limit: switch,
            ..rules("io.psi", "some avg10 > 20%")
        };
        let pods = vec![
            (priority("throttled", 0), busy(MI)),
            (priority("reader", 0), busy(40 * MI)),
            (priority("hog", 0), busy(if hog > 0 { 900 * MI } else { 0 })),
        ];
        let stalls = Stalls {
            pods: vec![waits(throttled, throttled), waits(reader, 0), waits(hog, 0)],
            others: Vec::new(),
        };
        let mut one = node(rules, pods, stalls);
        // Memory is in plenty all the time: it says nothing about devices.
        cycle(&mut one, 0, io, 800 * MI).unwrap()
    };
    let decision = run(90, 3, 0, false);
    assert_eq!(decision.withheld, own_limit(&["default/throttled"]));
    let decision = run(90, 3, 0, true);
    assert_eq!(victim(Some(&decision)), Some("default/throttled"));
    let decision = run(90, 60, 70, true);
    assert_eq!(victim(Some(&decision)), Some("default/hog"));
}

#[test]
fn a_stall_that_harms_no_other_pod_ends_no_grace_period_and_hides_no_signal() {
    let hard = [("memory.psi", "some avg10 > 20%"), ("pid.available", "100")];
    let mut rules = memory_rules();
    rules.thresholds = maps(&hard, &[], &[], &[]).parse_with_ours().unwrap();
    for available in [800 * MI, 100 * MI] {
        let mut one = node(rules.clone(), thrasher_and_innocents(), thrashing());
        assert!(cycle(&mut one, 0, STALLED, available).is_some());
        assert_eq!(one.keeper.hard_since(), None, "{available}");
    }
    let mut one = node(rules, thrasher_and_innocents(), thrashing());
    let looks = |second, pids| {
        let left = [
            (Signal::PidAvailable, pids),
            (Signal::MemoryAvailable, 100 * MI),
        ];
        let mut seen = crate::node::seen(second, &left);
        seen.set_stall(Signal::MemoryPsi, Some(percent(60)), Some(at(second)));
        seen
    };
    let Step::Rank(need) = one.keeper.begin(at(0), &looks(0, 500)) else {
        panic!("memory.psi acts");
    };
    let answer = Answer::Ranked {
        need,
        pods: &one.pods,
        usage: &one.usage,
        fresh: None,
    };
    let (_, decisions) = one.keeper.answer(at(0), answer);
    assert_eq!(decisions[0].withheld, own_limit(&["default/thrasher"]));
    let Step::Rank(need) = one.keeper.begin(at(1), &looks(1, 50)) else {
        panic!("pid.available acts");
    };
    assert_eq!(need.signal, Signal::PidAvailable);
}
