//! Nobody goes unless those who may go can lift the signal to its threshold. Capacity is 1 GiB.

use crate::node::{MI, Node, at, dies, disk, evictd, files, gone, hard, kubelet, memory};
use crate::node::{pod, priority, processes, requesting};
use evictd_decision::Withheld;
use evictd_departures::{Event, PodState, RemainingUsage};
use evictd_eviction::Rules;
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Signal, Threshold};
use evictd_usage::{PodUsage, figure::Figure};
use serde_json::json;
use std::path::PathBuf;

const MEMORY: Signal = Signal::MemoryAvailable;

fn threshold() -> Vec<Threshold> {
    hard(&[("memory.available", "100Mi")])
}

fn ours(thresholds: Vec<Threshold>) -> Rules {
    Rules {
        requires_relief: true,
        ..evictd(thresholds)
    }
}

fn holding(name: &str, mebibytes: i64) -> (Pod, Option<PodUsage>) {
    (requesting(name, "1Mi"), memory(mebibytes * MI))
}

fn critical(name: &str) -> Pod {
    pod(name, &json!({ "priority": 2_000_000_000 }))
}

/// Of 1 GiB there are 50 MiB left, and 50 are missing.
fn decide(rules: Rules, pods: Vec<(Pod, Option<PodUsage>)>) -> Option<Withheld> {
    Node::new(rules, pods).withheld(0, &[(MEMORY, 50 * MI)])
}

#[test]
fn no_pod_is_evicted_where_all_eligible_pods_hold_less_than_the_missing_amount() {
    let pods = |each: [i64; 2]| vec![holding("a", each[0]), holding("b", each[1])];
    assert_eq!(
        decide(ours(threshold()), pods([30, 20])),
        None,
        "just enough"
    );
    let short = decide(ours(threshold()), pods([30, 19]));
    let Some(Withheld::NoRelief {
        shares,
        growth: None,
    }) = short
    else {
        panic!("{short:?}");
    };
    assert_eq!(shares.short, Quantity::bytes(50 * MI));
    assert_eq!(shares.may_go, Quantity::bytes(49 * MI));
    assert_eq!(shares.in_no_pod, Quantity::bytes((1024 - 50 - 49) * MI));
    assert_eq!(
        Withheld::NoRelief {
            shares,
            growth: None
        }
        .to_string(),
        "the pods that may be evicted hold 49Mi together, and 50Mi are missing; 925Mi of 1Gi are used outside of pods"
    );
    assert_eq!(decide(evictd(threshold()), pods([30, 19])), None, "lifted");
    assert_eq!(decide(kubelet(threshold()), pods([30, 19])), None);
}

#[test]
fn the_message_names_the_unevictable_pods_that_hold_most() {
    let mut node = Node::new(
        ours(threshold()),
        vec![
            holding("small", 10),
            (critical("etcd"), memory(500 * MI)),
            (critical("proxy"), memory(20 * MI)),
            (critical("dns"), memory(30 * MI)),
        ],
    );
    let decision = node.cycle(0, &[(MEMORY, 50 * MI)]).unwrap();
    let who = "; default/etcd holds 500Mi (critical priority); default/dns holds 30Mi (critical priority)";
    assert!(decision.why.ends_with(who), "{}", decision.why);
}

#[test]
fn an_unknown_gain_does_not_count_as_relief() {
    let table = [
        vec![holding("a", 49), (requesting("unknown", "1Mi"), None)],
        vec![holding("a", 49), (critical("etcd"), memory(500 * MI))],
    ];
    for pods in table {
        let names: Vec<_> = pods.iter().map(|(pod, _)| pod.full_name()).collect();
        let withheld = decide(ours(threshold()), pods);
        assert!(
            matches!(withheld, Some(Withheld::NoRelief { .. })),
            "{names:?}"
        );
    }
    let mut node = Node::new(ours(threshold()), vec![holding("a", 49), holding("b", 100)]);
    node.keeper.set_without_cgroup(["uid-b".to_owned()].into());
    let withheld = node.withheld(0, &[(MEMORY, 50 * MI)]);
    assert!(matches!(withheld, Some(Withheld::NoRelief { .. })));
}

#[test]
fn usage_of_terminating_pods_counts_and_is_not_enough_by_itself() {
    let mut node = Node::new(
        ours(threshold()),
        vec![holding("a", 30), holding("b", 20), holding("c", 10)],
    );
    assert_eq!(
        node.evicted(0, &[(MEMORY, 50 * MI)]).as_deref(),
        Some("default/a")
    );
    dies(&mut node.keeper, "uid-a", 0, 0);
    let next = node.evicted(1, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/b"), "30 of a, 20 of b");
}

#[test]
fn files_in_memory_that_outlive_their_pod_are_waited_for() {
    let mut node = Node::new(ours(threshold()), vec![holding("a", 60), holding("b", 60)]);
    assert_eq!(
        node.evicted(0, &[(MEMORY, 50 * MI)]).as_deref(),
        Some("default/a")
    );
    dies(&mut node.keeper, "uid-a", 0, 0);
    gone(&mut node.keeper, "uid-a", 1);
    node.pods.remove(0);
    node.usage.pods.remove(0);
    let held = |mebibytes: i64| {
        Event::Observed(vec![PodState {
            uid: "uid-a".to_owned(),
            cgroup: Some(PathBuf::from("a")),
            runs: Some(false),
            listed: true,
            remaining: Some(RemainingUsage {
                memory: Some(mebibytes * MI),
                swap: None,
                processes: Some(0),
                ..RemainingUsage::default()
            }),
            ..PodState::default()
        }])
    };
    node.keeper.on_event(at(2), held(55));
    let waits = node.withheld(2, &[(MEMORY, 50 * MI)]);
    assert!(
        matches!(waits, Some(Withheld::DyingPodsRelease { .. })),
        "{waits:?}"
    );
    node.keeper.on_event(at(3), held(0));
    let next = node.evicted(3, &[(MEMORY, 50 * MI)]);
    assert_eq!(next.as_deref(), Some("default/b"));
}

#[test]
fn after_three_futile_evictions_the_pod_that_alone_holds_the_missing_amount_is_evicted() {
    let decoy = |name: &str| (priority(name, -1), memory(2 * MI));
    let mut node = Node::new(
        ours(threshold()),
        vec![
            decoy("decoy-0"),
            decoy("decoy-1"),
            decoy("decoy-2"),
            decoy("decoy-3"),
            (priority("hog", 0), memory(150 * MI)),
        ],
    );
    for number in 0..3 {
        let decoy = format!("decoy-{number}");
        let victim = node.evicted(10 * number, &[(MEMORY, 50 * MI)]);
        assert_eq!(victim, Some(format!("default/{decoy}")));
        node.end(10 * number, &decoy);
    }
    let decision = node.cycle(30, &[(MEMORY, 50 * MI)]).unwrap();
    assert_eq!(decision.eviction.unwrap().pod, "default/hog");
    assert!(
        decision
            .why
            .contains("the last 3 evictions gained too little, and default/hog alone holds the 50Mi that are missing"),
        "{}",
        decision.why
    );
    assert_eq!(node.keeper.futile_stops().count(), 0, "nothing is stopped");
}

#[test]
fn a_victim_that_holds_more_than_could_be_counted_may_suffice() {
    let decision = |cut_short: bool| {
        let held = disk(files(0, 0), files(0, 0), files(MI, 600));
        let litters = held.map(|mut held| {
            let inodes = &mut held.volumes[0].usage.inodes;
            *inodes = inodes.map(|inodes| inodes.at_least(cut_short));
            held
        });
        let tidy = disk(files(0, 0), files(0, 0), files(MI, 10));
        let volume = json!({ "volumes": [{ "name": "v", "emptyDir": {} }] });
        let mut node = Node::new(
            ours(hard(&[("nodefs.inodesFree", "1000")])),
            vec![
                (pod("tidy", &volume), tidy),
                (pod("litters", &volume), litters),
            ],
        );
        node.cycle(0, &[(Signal::NodefsInodesFree, 100)]).unwrap()
    };
    assert!(matches!(
        decision(false).withheld,
        Some(Withheld::NoRelief { .. })
    ));
    let cut_short = decision(true);
    assert_eq!(cut_short.eviction.unwrap().pod, "default/litters");
    assert!(
        cut_short.why.contains("uses at least 600 inodes"),
        "{}",
        cut_short.why
    );
}

/// The decision of a cycle in which something acts.
fn turn(node: &mut Node, second: i64, left: &[(Signal, i64)]) -> evictd_decision::Decision {
    let step = node
        .keeper
        .begin(at(second), &crate::node::seen(second, left));
    let evictd_eviction::Step::Rank(need) = step else {
        panic!("{step:?}");
    };
    let answer = evictd_eviction::Answer::Ranked {
        need,
        pods: &node.pods,
        usage: &node.usage,
        fresh: None,
    };
    node.keeper.answer(at(second), answer).1.remove(0)
}

/// A pod with so much memory and 80 processes on a node with thresholds for both.
fn memory_and_pids(bytes: i64) -> Node {
    let thresholds = hard(&[("memory.available", "100Mi"), ("pid.available", "100")]);
    let usage = PodUsage {
        working_set: Some(Figure::bytes(bytes)),
        ..processes(80).unwrap()
    };
    Node::new(ours(thresholds), vec![(priority("a", 0), Some(usage))])
}

#[test]
fn a_signal_that_no_pod_can_lift_does_not_hide_another() {
    let mut node = memory_and_pids(MI);
    let seen = [(MEMORY, 50 * MI), (Signal::PidAvailable, 50)];
    let first = turn(&mut node, 0, &seen);
    assert_eq!(first.signal, "memory.available");
    assert!(matches!(first.withheld, Some(Withheld::NoRelief { .. })));
    let second = turn(&mut node, 1, &seen);
    assert_eq!(second.signal, "pid.available");
    assert_eq!(second.eviction.unwrap().pod, "default/a");
}

#[test]
fn a_signal_that_no_pod_could_lift_an_hour_ago_acts_again() {
    let mut node = memory_and_pids(200 * MI);
    let pods = std::mem::take(&mut node.pods);
    let left = |pids| [(MEMORY, 50 * MI), (Signal::PidAvailable, pids)];
    let first = turn(&mut node, 0, &left(500));
    assert_eq!(first.withheld, Some(Withheld::NoPods));
    node.pods = pods;
    assert_eq!(turn(&mut node, 3600, &left(50)).signal, "memory.available");
}

#[test]
fn an_overdue_pod_ranks_before_all_others_after_its_kubelet_has_had_its_time() {
    use evictd_departures::Departures;
    use jiff::SignedDuration;
    let mut node = Node::new(
        ours(threshold()),
        vec![
            (priority("batch", -5), memory(60 * MI)),
            (priority("deleted", 1000), memory(60 * MI)),
        ],
    );
    let names = ("default/deleted".to_owned(), "uid-deleted".to_owned());
    let grace = SignedDuration::from_secs(1);
    let departure = Departures::deleted(at(0), names, PathBuf::from("d"), grace);
    node.keeper
        .on_event(at(0), Event::Begin(Box::new(departure)));
    let waits = node.withheld(2, &[(MEMORY, 50 * MI)]);
    assert!(
        matches!(waits, Some(Withheld::DyingPodsRelease { .. })),
        "{waits:?}"
    );
    let decision = node.cycle(3, &[(MEMORY, 50 * MI)]).unwrap();
    assert_eq!(decision.eviction.unwrap().pod, "default/deleted");
    assert!(
        decision.why.contains("was deleted and should be gone"),
        "{}",
        decision.why
    );
}
