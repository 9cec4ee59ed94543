//! Groups of `scheduling.k8s.io` of which all pods have to be in one domain of the cluster.

use crate::scenario::{conf, evicted};
use crate::upstream::{
    configuration, gang, member, members, parse, queue, running, session, told, unschedulable,
};
use evictd_batch::conf::Conf;
use evictd_batch::session::{Cache, Objects, Outcome, Setting, UpstreamOutcome, simulate};
use evictd_batch_objects::Compat;
use evictd_placement::Cluster;
use evictd_test_objects as objects;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A gang that has to be in one rack.
fn confined(name: &str, min: i32, queue: &str) -> Value {
    let mut group = gang(name, min, queue);
    group["spec"]["schedulingConstraints"] = json!({"topology": [{"key": "rack"}]});
    group
}

fn node(name: &str, cpu: &str, labels: &Value) -> Value {
    let node = objects::node(name).cpu(cpu).memory("100Gi");
    node.set("/metadata/labels", labels.clone()).json()
}

/// Nodes with so many cores in these racks: `a1` is in rack `a`.
fn racks(nodes: &[(&str, &str)]) -> Value {
    let nodes = nodes.iter();
    let nodes = nodes.map(|(name, cpu)| node(name, cpu, &json!({"rack": name[..1]})));
    nodes.collect()
}

fn on(nodes: &Value, groups: &[Value], pods: &[Value]) -> Outcome {
    session("0", groups, pods, &json!({"nodes": nodes}))
}

/// The racks of the pods of a group that get nodes, now or once others have gone, and how many get one.
fn placed(outcome: &Outcome, group: &str) -> (String, usize) {
    let nodes = outcome.binds.iter().chain(&outcome.pipelined);
    let prefix = format!("default/{group}-");
    let nodes = nodes.filter(|(pod, _)| pod.starts_with(&prefix));
    let racks: Vec<&str> = nodes.map(|(_, node)| &node[..1]).collect();
    let count = racks.len();
    let racks: BTreeSet<&str> = racks.into_iter().collect();
    (racks.into_iter().collect(), count)
}

#[test]
fn a_gang_is_placed_in_the_first_domain_that_fits_it_whole_or_not_at_all() {
    let nodes = racks(&[
        ("a1", "1"),
        ("a2", "1"),
        ("b1", "2"),
        ("b2", "1"),
        ("c1", "4"),
    ]);
    let with = |min: i32, pods: usize| {
        let outcome = on(&nodes, &[confined("t", min, "")], &members("t", pods));
        (placed(&outcome, "t"), outcome)
    };
    assert_eq!(with(2, 2).0, ("a".to_owned(), 2));
    assert_eq!(with(3, 3).0, ("b".to_owned(), 3));
    assert_eq!(with(4, 4).0, ("c".to_owned(), 4));
    // Where they do not all fit it is the one that takes most of them.
    assert_eq!(with(2, 4).0, ("c".to_owned(), 4));
    assert_eq!(with(2, 6).0, ("c".to_owned(), 4));
    let (none, outcome) = with(5, 5);
    assert_eq!(none, (String::new(), 0));
    let why = unschedulable(&outcome, "t");
    let words = "there is no room now for 5 pods that ask for cpu 1 each. All its pods have to be on nodes with the same rack: \
                 at best there is room for 4 of 5, on those with rack=c";
    assert!(why.contains(words), "{why}");
}

#[test]
fn without_the_placement_check_the_best_domain_gives_the_reason_why_a_job_waits() {
    let nodes = racks(&[("a1", "1"), ("b1", "2"), ("c1", "1")]);
    let actions = conf(
        "allocate",
        &[&["priority", "gang"], &["predicates", "nodeorder"]],
    );
    let more = json!({"nodes": nodes, "conf": actions});
    let outcome = session("0", &[confined("t", 3, "")], &members("t", 3), &more);
    let why = unschedulable(&outcome, "t");
    let words = "All its pods have to be on nodes with the same rack: at best there is room for 2 of 3, on those with rack=b. \
                 Origin reason is t-2: 0/3 nodes are unavailable: 1 Insufficient cpu, 2 node(s) were outside rack=b.";
    assert!(why.ends_with(words), "{why}");
}

#[test]
fn pods_on_nodes_fix_the_domain_of_the_others() {
    let nodes = racks(&[("a1", "4"), ("b1", "2")]);
    let mut pods = members("t", 3);
    pods[0] = running("t", 0, "b1");
    let outcome = on(&nodes, &[confined("t", 2, "")], &pods);
    assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 1));
    let why = &outcome.pod_conditions["default/t-2"].message;
    let words = "0/2 nodes are unavailable: 1 Insufficient cpu, 1 node(s) were outside rack=b.";
    assert!(why.ends_with(words), "{why}");
    let whole = outcome.pod_groups.values().next().unwrap();
    assert_eq!(whole.conditions[0].kind.as_str(), "Scheduled");
}

#[test]
fn nodes_without_a_label_are_in_no_domain_and_several_labels_count_together() {
    let nodes = json!([
        node("x", "9", &json!({})),
        node("y", "9", &json!({"zone": "z"}))
    ]);
    let outcome = on(&nodes, &[confined("t", 1, "")], &members("t", 1));
    assert_eq!(placed(&outcome, "t").1, 0);
    let why = unschedulable(&outcome, "t");
    assert!(why.contains("no node has the label rack"), "{why}");

    let both = |zone: &str, rack: &str| json!({"zone": zone, "rack": rack});
    let nodes = json!([
        node("a", "1", &both("z", "1")),
        node("b", "1", &both("y", "1")),
        node("c", "2", &both("y", "2"))
    ]);
    let mut group = confined("t", 2, "");
    let topology = &mut group["spec"]["schedulingConstraints"]["topology"];
    *topology = json!([{"key": "zone"}, {"key": "rack"}]);
    let outcome = on(&nodes, &[group.clone()], &members("t", 2));
    assert_eq!(placed(&outcome, "t"), ("c".to_owned(), 2));
    group["spec"]["schedulingPolicy"]["gang"]["minCount"] = json!(3);
    let outcome = on(&nodes, &[group], &members("t", 3));
    let why = unschedulable(&outcome, "t");
    let words = "the same zone and the same rack: at best there is room for 2 of 3, on those with zone=y, rack=2";
    assert!(why.contains(words), "{why}");
}

#[test]
fn pods_that_ask_for_nothing_go_to_the_domain_of_the_others_or_all_to_one() {
    let nodes = racks(&[("a1", "1"), ("b1", "3")]);
    let mut pods = members("t", 4);
    for pod in &mut pods[2..] {
        pod["spec"]["containers"][0]["resources"] = json!({});
    }
    let outcome = on(&nodes, &[confined("t", 3, "")], &pods);
    assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 4));

    // Rack b takes three pods, whatever they ask for.
    let mut nodes = racks(&[("a1", "9"), ("b1", "9"), ("b2", "9")]);
    for (node, pods) in nodes
        .as_array_mut()
        .unwrap()
        .iter_mut()
        .zip(["2", "2", "1"])
    {
        node["status"]["allocatable"]["pods"] = json!(pods);
    }
    for pod in &mut pods {
        pod["spec"]["containers"][0]["resources"] = json!({});
    }
    let with = |min: i32| {
        let outcome = on(&nodes, &[confined("t", min, "")], &pods);
        placed(&outcome, "t")
    };
    assert_eq!(with(3), ("b".to_owned(), 3));
    assert_eq!(with(4), (String::new(), 0));
    // One by one they go where most of them can be.
    assert_eq!(with(1), ("b".to_owned(), 3));
}

#[test]
fn a_gang_with_pods_that_ask_for_nothing_starts_only_where_there_is_a_place_for_them_too() {
    let mut nodes = racks(&[("a1", "9"), ("b1", "9")]);
    nodes[0]["status"]["allocatable"]["pods"] = json!("2");
    let mut pods = members("t", 3);
    pods[2]["spec"]["containers"][0]["resources"] = json!({});
    let with = |nodes: &Value| placed(&on(nodes, &[confined("t", 3, "")], &pods), "t");
    assert_eq!(with(&nodes), ("b".to_owned(), 3));
    nodes[1]["status"]["allocatable"]["pods"] = json!("2");
    assert_eq!(with(&nodes), (String::new(), 0));
}

#[test]
fn earlier_placements_of_the_session_count_in_a_domain() {
    let nodes = racks(&[("a1", "3"), ("b1", "2")]);
    let groups = [
        confined("t", 2, ""),
        confined("u", 2, ""),
        confined("v", 2, ""),
    ];
    let pods = ["t", "u", "v"].map(|group| members(group, 2)).concat();
    let outcome = on(&nodes, &groups, &pods);
    assert_eq!(placed(&outcome, "t"), ("a".to_owned(), 2));
    assert_eq!(placed(&outcome, "u"), ("b".to_owned(), 2));
    assert_eq!(placed(&outcome, "v"), (String::new(), 0));
}

/// A group of pods that run and can be spared, on these nodes.
fn low(name: &str, nodes: &[&str], queue: &str) -> (Value, Vec<Value>) {
    let mut group = gang(name, 1, queue);
    group["spec"]["schedulingPolicy"] = json!({"basic": {}});
    let nodes = nodes.iter().enumerate();
    let pods = nodes.map(|(index, node)| running(name, index, node));
    (group, pods.collect())
}

fn high(mut group: Value) -> Value {
    group["spec"]["priority"] = json!(100);
    group["spec"]["priorityClassName"] = json!("high");
    group
}

#[test]
fn victims_are_in_one_domain_and_the_one_with_the_fewest_comes_first() {
    let nodes = racks(&[("a1", "2"), ("b1", "3"), ("c1", "1")]);
    for (of, actions) in [
        ("", "enqueue, allocate, preempt"),
        ("other", "enqueue, allocate, reclaim"),
    ] {
        let conf =
            configuration().replace("enqueue, allocate, backfill, preempt, reclaim", actions);
        let with = |min: i32, running: &[&str]| {
            let (group, mut pods) = low("old", running, "");
            let count = usize::try_from(min).unwrap();
            pods.extend(members("t", count));
            let more = json!({"nodes": nodes, "conf": conf});
            session("0", &[group, high(confined("t", min, of))], &pods, &more)
        };
        // Two of rack a or one of rack b.
        let outcome = with(2, &["a1", "a1", "b1", "b1", "c1"]);
        assert_eq!(evicted(&outcome).len(), 1, "{actions}");
        assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 2), "{actions}");
        let gone = &outcome.evicted[0].pod;
        assert!(
            ["default/old-2", "default/old-3"].contains(&gone.as_str()),
            "{gone}"
        );
        assert!(outcome.pod_conditions["default/t-0"].message.contains("b1"));
        // All of them together hold enough, but no rack does.
        let outcome = with(4, &["a1", "a1", "b1", "b1", "b1", "c1"]);
        assert!(evicted(&outcome).is_empty(), "{actions}");
        assert_eq!(placed(&outcome, "t"), (String::new(), 0), "{actions}");
    }
}

#[test]
fn victims_may_be_in_another_domain_than_the_idlest_one() {
    let nodes = racks(&[("a1", "2"), ("b1", "2")]);
    let (group, mut pods) = low("old", &["b1", "b1"], "");
    let (stays, of_stays) = low("stays", &["a1"], "");
    pods.extend(of_stays);
    pods.extend(members("t", 2));
    let groups = [group, high(stays), high(confined("t", 2, ""))];
    // What the nodes of rack a have said when room was given out does not hold for rack b.
    let tiers: &[&[&str]] = &[&["priority", "gang"], &["predicates", "nodeorder"]];
    let more = json!({"nodes": nodes, "conf": conf("allocate, preempt", tiers)});
    let outcome = session("0", &groups, &pods, &more);
    assert_eq!(evicted(&outcome), ["old-0", "old-1"]);
    assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 2));
}

#[test]
fn no_pod_of_another_domain_is_evicted_for_a_gang_that_runs_in_part() {
    let nodes = racks(&[("a1", "2"), ("b1", "2")]);
    let (group, mut pods) = low("old", &["a1", "a1", "b1"], "");
    pods.push(running("t", 0, "b1"));
    pods.extend([member("t", 1), member("t", 2)]);
    let with = |min: i32| {
        let groups = [group.clone(), high(confined("t", min, ""))];
        on(&nodes, &groups, &pods)
    };
    assert_eq!(evicted(&with(2)), ["old-2"]);
    assert_eq!(placed(&with(2), "t"), ("b".to_owned(), 1));
    // There is no room for the third, whoever goes.
    assert!(evicted(&with(3)).is_empty());
}

#[test]
fn a_gang_waits_for_releasing_room_of_its_domain_and_evicts_no_further_pod() {
    let nodes = racks(&[("a1", "2"), ("b1", "2")]);
    let (group, mut pods) = low("old", &["a1", "a1", "b1", "b1"], "");
    for pod in &mut pods[2..] {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    pods.extend(members("t", 2));
    let outcome = on(&nodes, &[group, high(confined("t", 2, ""))], &pods);
    assert!(evicted(&outcome).is_empty());
    assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 2));
    assert!(outcome.binds.is_empty());
}

#[test]
fn nodes_of_one_domain_are_kept_for_a_gang_that_has_waited_long() {
    let nodes = racks(&[
        ("a1", "2"),
        ("a2", "2"),
        ("b1", "2"),
        ("b2", "2"),
        ("c1", "2"),
    ]);
    let mut group = confined("t", 4, "");
    group["metadata"]["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
    let (old, mut pods) = low("old", &["a1", "a1", "a2", "b1", "b2", "c1"], "");
    pods.extend(members("t", 4));
    let objects: Objects = parse(json!({
        "nodes": nodes, "queues": [queue("default")], "upstreamPodGroups": [group, old], "pods": pods,
    }));
    let mut cluster = Cluster::new();
    for node in &objects.nodes {
        assert!(cluster.add_node(node));
    }
    for pod in objects
        .pods
        .iter()
        .filter(|pod| !pod.spec.node_name.is_empty())
    {
        cluster.add_pod(pod.clone()).unwrap();
    }
    let mut cache = Cache::of(&mut cluster, &objects, Setting::default());
    cache.set_now("2026-01-01T01:00:00Z".parse().unwrap());
    let conf = conf(
        "allocate",
        &[&["priority", "gang"], &["predicates", "nodeorder"]],
    );
    let conf = Conf::read(&conf).unwrap();
    let outcome = cache.session(&mut cluster, &conf, Compat::EVICTD);
    let groups: BTreeMap<&str, _> = outcome
        .pod_groups
        .iter()
        .map(|(key, own)| (key.as_str(), own))
        .collect();
    let mut said = groups["default/t@scheduling.k8s.io"].conditions.iter();
    let said = said.find(|own| own.kind.as_str() == "Reserved").unwrap();
    assert!(said.message.ends_with(": b1, b2"), "{}", said.message);
}

#[test]
fn with_volcanos_compat_a_gang_is_also_in_one_domain() {
    let nodes = racks(&[("a1", "1"), ("b1", "2")]);
    let objects: Objects = parse(json!({
        "conf": configuration(), "nodes": nodes, "queues": [queue("default")],
        "upstreamPodGroups": [confined("t", 2, "")], "pods": members("t", 3),
    }));
    let (outcome, _) = simulate(&objects, &Setting::default(), Compat::VOLCANO).unwrap();
    assert_eq!(placed(&outcome, "t"), ("b".to_owned(), 2));
    assert_eq!(told(&outcome, "t"), Some(&UpstreamOutcome::Scheduled));
}

#[test]
fn a_gang_that_no_domain_can_hold_keeps_no_share() {
    let nodes = racks(&[("a1", "4"), ("b1", "4")]);
    let tiers: &[&[&str]] = &[&["gang"], &["proportion", "predicates"]];
    let more = json!({"nodes": nodes, "conf": conf("allocate", tiers)});
    let mut pods = members("never", 5);
    pods.extend(members("whole", 5));
    let groups = [confined("never", 5, "other"), gang("whole", 5, "")];
    let outcome = session("0", &groups, &pods, &more);
    let of = |job: &str| outcome.binds.keys().filter(|pod| pod.contains(job)).count();
    assert_eq!((of("whole"), of("never")), (5, 0));
}
