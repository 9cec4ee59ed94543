//! Moves that repair spread constraints: they are the fewest, and each passes every filter.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::{Node, wire};
use evictd_scheduling::Framework;
use evictd_scheduling::simulation::{Rebalance, RunningPod, rebalance};
use evictd_test_objects::{Object, node, pod};
use serde_json::json;
use std::collections::BTreeSet;

const ZONE: &str = "topology.kubernetes.io/zone";

fn zone(index: usize) -> String {
    format!("z{index}")
}

/// A pod of a `ReplicaSet` that runs in a zone and may deviate by `skew`.
fn replica(number: usize, zone: &str, skew: i64, when: &str) -> Object {
    let spread = json!([{ "maxSkew": skew, "topologyKey": ZONE, "whenUnsatisfiable": when,
        "labelSelector": { "matchLabels": { "app": "web" } } }]);
    pod(&format!("web-{number}"))
        .label("app", "web")
        .spec(json!({ "topologySpreadConstraints": spread }))
        .runs_on(Some(zone))
}

/// A cluster with one node in each zone, and its pods.
fn cluster(counts: &[usize], skew: i64, when: &str) -> (Cluster, Vec<wire::Pod>) {
    let mut cluster = Cluster::new();
    let mut pods = Vec::new();
    for (index, count) in counts.iter().enumerate() {
        let zone = zone(index);
        let node = node(&zone).label(ZONE, &zone);
        cluster.add_node(&node.read::<Node>());
        for _ in 0..*count {
            let pod = replica(pods.len(), &zone, skew, when).read::<wire::Pod>();
            pods.push((*pod).clone());
        }
    }
    for pod in &pods {
        cluster.add_pod(pod.clone()).unwrap();
    }
    (cluster, pods)
}

fn moved(cluster: &mut Cluster, pods: &[wire::Pod], soft: bool) -> Rebalance {
    let framework = Framework::of_default(cluster);
    let running = pods.iter().map(|pod| RunningPod {
        pod: pod.clone(),
        stays: None,
    });
    rebalance(cluster, &[framework], running.collect(), soft)
}

fn is_even(counts: &[usize], skew: usize) -> bool {
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    most - least <= skew
}

/// The fewest moves, by trying all of them.
fn fewest(counts: &[usize], skew: usize) -> usize {
    let mut reached = BTreeSet::from([counts.to_vec()]);
    for moves in 0.. {
        if reached.iter().any(|counts| is_even(counts, skew)) {
            return moves;
        }
        let mut next = BTreeSet::new();
        for counts in &reached {
            for from in 0..counts.len() {
                for to in 0..counts.len() {
                    if counts[from] > 0 && from != to {
                        let mut counts = counts.clone();
                        counts[from] -= 1;
                        counts[to] += 1;
                        next.insert(counts);
                    }
                }
            }
        }
        reached = next;
    }
    unreachable!("the loop ends when it is even")
}

#[test]
fn a6_the_moves_are_the_fewest_for_every_small_cluster() {
    for skew in 1..=3_usize {
        for number in 0..6_usize.pow(3) {
            let mut counts = vec![number % 6, number / 6 % 6, number / 36];
            let (mut cluster, pods) =
                cluster(&counts, i64::try_from(skew).unwrap(), "DoNotSchedule");
            let answer = moved(&mut cluster, &pods, false);
            let fewest = fewest(&counts, skew);
            let what = format!("{counts:?} with skew {skew}: {answer:?}");
            assert_eq!(answer.moves.len(), fewest, "{what}");
            assert_eq!(answer.at_least, fewest, "{what}");
            for step in &answer.moves {
                let index = |zone: &str| zone[1..].parse::<usize>().unwrap();
                counts[index(&step.from)] -= 1;
                counts[index(&step.to)] += 1;
            }
            assert!(is_even(&counts, skew), "{what}");
            assert!(
                answer.spread.iter().all(|state| state.missing == 0),
                "{what}"
            );
        }
    }
}

#[test]
fn a6_a_move_goes_only_where_every_filter_passes() {
    let (mut cluster, pods) = cluster(&[4, 0, 0], 1, "DoNotSchedule");
    let full = node("z2").label(ZONE, "z2").resource("pods", "0");
    let mut full = (*full.read::<Node>()).clone();
    full.status.allocatable.insert("pods", "0".parse().unwrap());
    cluster.update_node(&full);
    let answer = moved(&mut cluster, &pods, false);
    let targets: BTreeSet<&str> = answer.moves.iter().map(|step| &*step.to).collect();
    assert_eq!(targets, BTreeSet::from(["z1"]), "{answer:?}");
    let missing: i64 = answer.spread.iter().map(|state| state.missing).sum();
    assert!(missing > 0, "{answer:?}");
    let mut stuck = answer.cannot_move.values();
    assert!(
        stuck.any(|reason| reason.contains("Too many pods")),
        "{answer:?}"
    );
}

#[test]
fn a6_soft_constraints_are_repaired_on_demand_and_pods_that_stay_are_named() {
    let (mut soft, pods) = cluster(&[4, 0], 1, "ScheduleAnyway");
    assert_eq!(moved(&mut soft, &pods, false).moves, []);
    assert_eq!(moved(&mut soft, &pods, true).moves.len(), 2);
    let (mut hard, pods) = cluster(&[3, 0], 1, "DoNotSchedule");
    let framework = Framework::of_default(&mut hard);
    let running = pods.into_iter().map(|pod| RunningPod {
        pod,
        stays: Some("its budget".to_owned()),
    });
    let answer = rebalance(&mut hard, &[framework], running.collect(), false);
    assert_eq!((answer.moves.len(), answer.at_least), (0, 1));
    assert_eq!(answer.cannot_move["default/web-0"], "its budget");
}
