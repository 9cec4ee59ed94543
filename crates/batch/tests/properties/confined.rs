//! Groups of which all pods have to be in one domain: they never are in two, whatever else goes on.

use crate::CONFS;
use evictd_batch::session::{Objects, Setting, simulate};
use evictd_batch_objects::Compat;
use evictd_test_objects as objects;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A group of `scheduling.k8s.io`.
#[derive(Debug, Clone)]
struct Group {
    queue: usize,
    /// 0 for one whose pods start one by one.
    min: i32,
    priority: i32,
    confined: bool,
    /// What each pod asks for, and its node.
    pods: Vec<(u8, Option<usize>)>,
}

fn group() -> impl Strategy<Value = Group> {
    let pods = prop::collection::vec(0_u8..3, 1..6);
    (0_usize..2, 0_i32..5, 0_i32..3, any::<bool>(), pods).prop_map(
        |(queue, min, priority, confined, pods)| Group {
            queue,
            min,
            priority,
            confined,
            pods: pods.into_iter().map(|cpu| (cpu, None)).collect(),
        },
    )
}

/// The cores, the most pods and the rack of a node; it may be in none.
type Node = (u8, u8, Option<u8>);

fn object(index: usize, group: &Group) -> Value {
    let policy = match group.min {
        0 => json!({"basic": {}}),
        min => json!({"gang": {"minCount": min}}),
    };
    let topology = if group.confined {
        json!([{"key": "rack"}])
    } else {
        Value::Null
    };
    json!({"metadata": {"name": format!("g{index}"), "namespace": "default",
            "labels": {"scheduling.volcano.sh/queue-name": format!("q{}", group.queue)}},
        "spec": {"schedulingPolicy": policy, "schedulingConstraints": {"topology": topology},
            "priority": group.priority, "priorityClassName": "p"}})
}

fn pod(index: usize, pod: usize, (cpu, node): (u8, Option<usize>)) -> Value {
    let name = format!("g{index}-{pod}");
    let requests = match cpu {
        0 => json!({}),
        cpu => json!({"cpu": cpu.to_string()}),
    };
    let node = node.map(|node| format!("n{node}"));
    let pod = objects::pod(&name).set("/spec/schedulerName", "volcano");
    let pod = pod.member_of(&format!("g{index}")).runs_on(node.as_deref());
    pod.set("/spec/containers/0/resources/requests", requests)
        .json()
}

fn objects(groups: &[Group], nodes: &[Node], conf: &str) -> Objects {
    let node = |(index, (cores, pods, rack)): (usize, &Node)| {
        let node = objects::node(&format!("n{index}")).cpu(&cores.to_string());
        let node = node.memory("64Gi").resource("pods", &pods.to_string());
        match rack {
            Some(rack) => node.label("rack", &rack.to_string()).json(),
            None => node.json(),
        }
    };
    let queue = |index: usize| {
        let queue = objects::queue(&format!("q{index}")).open();
        queue.set("/spec/deserved/cpu", "4").json()
    };
    let pods = groups.iter().enumerate().flat_map(|(index, group)| {
        let pods = group.pods.iter().enumerate();
        pods.map(move |(at, own)| pod(index, at, *own))
    });
    let all = json!({
        "conf": conf,
        "nodes": nodes.iter().enumerate().map(node).collect::<Vec<_>>(),
        "queues": (0..2).map(queue).collect::<Vec<_>>(),
        "upstreamPodGroups": groups.iter().enumerate().map(|(index, own)| object(index, own)).collect::<Vec<_>>(),
        "pods": pods.collect::<Vec<_>>(),
    });
    serde_json::from_value(all).unwrap()
}

/// Which pod `default/g1-2` is.
fn place(pod: &str) -> (usize, usize) {
    let (group, pod) = pod["default/g".len()..].split_once('-').unwrap();
    (group.parse().unwrap(), pod.parse().unwrap())
}

fn node_of(name: &str) -> usize {
    name[1..].parse().unwrap()
}

/// Runs a session, checks what it did to groups, and carries it out.
fn step(groups: &mut [Group], nodes: &[Node], conf: &str, compat: Compat) {
    let (outcome, _) =
        simulate(&objects(groups, nodes, conf), &Setting::default(), compat).unwrap();
    for (index, group) in groups.iter().enumerate().filter(|(_, own)| own.confined) {
        let there = group.pods.iter().filter_map(|(_, node)| *node);
        let there: Vec<usize> = there.collect();
        let given = outcome.binds.iter().chain(&outcome.pipelined);
        let given = given.map(|(pod, node)| (pod.as_str(), node.as_str()));
        let promised = outcome.allocated_not_bound.iter();
        let given = given.chain(promised.map(|own| own.split_once(" -> ").unwrap()));
        let given = given.filter(|(pod, _)| place(pod).0 == index);
        let given: Vec<usize> = given.map(|(_, node)| node_of(node)).collect();
        let racks: BTreeSet<Option<u8>> = there
            .iter()
            .chain(&given)
            .map(|node| nodes[*node].2)
            .collect();
        assert!(
            racks.len() <= 1 && !racks.contains(&None),
            "g{index} in {racks:?}"
        );
        let enough = i32::try_from(there.len() + given.len()).unwrap() >= group.min;
        let gang = conf.is_empty() || conf.contains("gang");
        assert!(
            !gang || given.is_empty() || enough,
            "g{index} got {given:?} beside {there:?}"
        );
    }
    for (pod, node) in &outcome.binds {
        let (group, pod) = place(pod);
        groups[group].pods[pod].1 = Some(node_of(node));
    }
    for gone in &outcome.evicted {
        let (group, pod) = place(&gone.pod);
        groups[group].pods[pod].1 = None;
    }
}

proptest! {
    #[test]
    fn a_group_that_has_to_be_in_one_domain_never_is_in_two(
        mut groups in prop::collection::vec(group(), 1..7),
        late in prop::collection::vec(group(), 0..4),
        nodes in prop::collection::vec((1_u8..5, 1_u8..5, prop::option::weighted(0.9, 0_u8..3)), 1..7),
        conf in prop::sample::select(CONFS.to_vec()),
        ours in any::<bool>(),
    ) {
        let compat = if ours { Compat::EVICTD } else { Compat::VOLCANO };
        step(&mut groups, &nodes, conf, compat);
        groups.extend(late);
        for _ in 0..3 {
            step(&mut groups, &nodes, conf, compat);
        }
    }
}
