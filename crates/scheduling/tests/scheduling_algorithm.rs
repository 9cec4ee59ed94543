//! What is kept from one decision to the next never changes a decision.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::{Node, wire};
use evictd_scheduling::config::Point;
use evictd_scheduling::{Framework, Recorder, SchedulingAlgorithm};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Something that happens between decisions.
#[derive(Debug, Clone)]
enum Step {
    /// A pod of this kind comes and is placed.
    Place(usize),
    /// The pod that was placed as this one goes.
    Remove(prop::sample::Index),
    /// A node gets another taint, or loses it.
    Taint(usize, bool),
    /// A node comes, or goes.
    Node(usize, bool),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..7_usize).prop_map(Step::Place),
        2 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => (0..6_usize, any::<bool>()).prop_map(|(node, is)| Step::Taint(node, is)),
        1 => (0..6_usize, any::<bool>()).prop_map(|(node, is)| Step::Node(node, is)),
    ]
}

fn node(index: usize, tainted: bool) -> Node {
    let taints = if tainted {
        json!([{ "key": "soft", "effect": "PreferNoSchedule" }])
    } else {
        json!([])
    };
    let zone = index % 2;
    let node = json!({
        "metadata": { "name": format!("node-{index}"), "labels": { "kubernetes.io/hostname": format!("node-{index}"),
            "topology.kubernetes.io/zone": format!("zone-{zone}"), "disk": if index < 3 { "ssd" } else { "hdd" } } },
        "spec": { "taints": taints },
        "status": { "allocatable": { "cpu": format!("{}", 2 + index), "memory": "4Gi", "pods": "5" } },
    });
    serde_json::from_value(node).unwrap()
}

fn term(app: &str, key: &str) -> Value {
    json!({ "topologyKey": key, "labelSelector": { "matchLabels": { "app": app } } })
}

/// The pods of a kind are alike but for one label.
fn pod(kind: usize, number: usize) -> wire::Pod {
    let mut pod = json!({
        "metadata": { "name": format!("pod-{number}"), "uid": format!("uid-{number}"),
            "labels": { "app": format!("app-{kind}"), "pod-name": format!("pod-{number}") } },
        "spec": { "containers": [{ "name": "c", "image": "img",
            "resources": { "requests": { "cpu": "300m", "memory": "256Mi" } } }] },
    });
    match kind {
        1 => {
            pod["spec"]["affinity"] = json!({ "nodeAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 5, "preference": {
                "matchExpressions": [{ "key": "disk", "operator": "In", "values": ["ssd"] }] } }] } });
        }
        2 => {
            pod["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [term("app-0", "kubernetes.io/hostname")] } });
        }
        3 => {
            pod["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": { "matchLabels": { "app": "app-3" } } }]);
        }
        // They tell pods apart by the label that each has of its own.
        5 | 6 => {
            let operator = if kind == 5 { "In" } else { "NotIn" };
            let names = ["pod-1", "pod-4", "pod-7", "pod-9"];
            pod["spec"]["affinity"] = json!({ "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "kubernetes.io/hostname", "labelSelector": {
                "matchExpressions": [{ "key": "pod-name", "operator": operator, "values": names }] } }] } });
        }
        _ => {}
    }
    serde_json::from_value(pod).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn cached_decisions_equal_those_without_a_cache(steps in prop::collection::vec(step(), 1..40)) {
        let mut cluster = Cluster::new();
        for index in 0..4 {
            cluster.add_node(&node(index, false));
        }
        let framework = Framework::of_default(&mut cluster);
        let mut algorithm = SchedulingAlgorithm::default();
        let mut placed: Vec<wire::Pod> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            match step {
                Step::Taint(index, tainted) if cluster.find_node(&format!("node-{index}")).is_some() => {
                    cluster.update_node(&node(index, tainted));
                }
                Step::Taint(..) => {}
                Step::Node(index, true) => { cluster.add_node(&node(index, false)); }
                Step::Node(index, false) => { cluster.remove_node(&format!("node-{index}")); }
                Step::Remove(_) if placed.is_empty() => {}
                Step::Remove(index) => {
                    let index = index.index(placed.len());
                    let gone = placed.swap_remove(index);
                    prop_assert!(cluster.remove_pod(&gone.metadata));
                }
                Step::Place(kind) => {
                    let wire = pod(kind, number);
                    let pod = cluster.pod(wire.clone()).unwrap();
                    let filtered = framework.filter(&cluster, &pod);
                    let scores = framework.score(&cluster, &pod, &filtered.feasible);
                    let mut top = scores.as_ref().map_or_else(|| filtered.feasible.clone(), |scores| scores.top(&filtered.feasible));
                    top.sort();
                    match algorithm.schedule(&framework, &cluster, &pod) {
                        Ok(mut decided) => {
                            let rejections = filtered.rejections(&framework, &cluster, &pod);
                            prop_assert_eq!(&decided.evidence.rejections[..], &rejections[..]);
                            let rejected: usize = rejections.iter().map(|nodes| nodes.count).sum();
                            prop_assert_eq!(rejected + decided.feasible, cluster.nodes().len());
                            prop_assert_eq!(decided.evidence.runner_up.is_some(), decided.feasible > 1);
                            decided.top.sort();
                            prop_assert_eq!(&decided.top, &top);
                            prop_assert_eq!(decided.feasible, filtered.feasible.len());
                            prop_assert_eq!(decided.score, scores.and_then(|scores| scores.totals.into_iter().max()));
                            cluster.assume(pod, decided.chosen);
                            placed.push(wire);
                        }
                        Err(found) => {
                            prop_assert_eq!(found.verdicts, filtered.verdicts);
                            prop_assert!(filtered.feasible.is_empty());
                            cluster.release(pod);
                        }
                    }
                }
            }
        }
    }
}

/// How often each point ran, and how much each plugin evaluated there.
#[derive(Default)]
struct Evaluations(Mutex<BTreeMap<(Point, String), u64>>);

impl Evaluations {
    fn add(&self, point: Point, name: &str, count: u64) {
        let mut all = self.0.lock().unwrap();
        *all.entry((point, name.to_owned())).or_default() += count;
    }

    fn take(&self) -> BTreeMap<(Point, String), u64> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Recorder for Evaluations {
    fn on_point(&self, _: &str, point: Point, _: &'static str, _: Duration) {
        self.add(point, "", 1);
    }

    fn on_evaluated(&self, _: &str, plugin: &str, point: Point, count: u64) {
        self.add(point, plugin, count);
    }
}

#[test]
fn s5_054_scores_are_measured_only_where_nodes_are_scored() {
    let mut cluster = Cluster::new();
    for index in 0..3 {
        cluster.add_node(&node(index, false));
    }
    let mut framework = Framework::of_default(&mut cluster);
    let evaluations = Arc::new(Evaluations::default());
    framework.recorder = Arc::<Evaluations>::clone(&evaluations);
    let mut algorithm = SchedulingAlgorithm::default();
    let mut measured = |cpu: &str| {
        let mut wire = pod(0, 1);
        let requests = json!({ "cpu": cpu });
        wire.spec.containers[0].resources.requests = serde_json::from_value(requests).unwrap();
        let pod = cluster.pod(wire).unwrap();
        let _ = algorithm.schedule(&framework, &cluster, &pod);
        cluster.release(pod);
        evaluations.take()
    };
    let of = |all: &BTreeMap<(Point, String), u64>, point, name: &str| {
        all.get(&(point, name.to_owned())).copied().unwrap_or(0)
    };
    // The nodes have 2, 3 and 4 CPUs.
    for (cpu, feasible) in [("9", 0), ("4", 1), ("3", 2), ("1", 3)] {
        let all = measured(cpu);
        let scored = if feasible > 1 { feasible } else { 0 };
        assert_eq!(
            of(&all, Point::Score, "ImageLocality"),
            scored,
            "{cpu}: {all:?}"
        );
        assert_eq!(
            of(&all, Point::PreScore, ""),
            u64::from(scored > 0),
            "{cpu}: {all:?}"
        );
        assert_eq!(
            of(&all, Point::Score, ""),
            u64::from(scored > 0),
            "{cpu}: {all:?}"
        );
        assert_eq!(
            of(&all, Point::PreScore, "NodeResourcesFit"),
            u64::from(scored > 0)
        );
        // It has no PreScore, and a pod without a node name does not make it skip.
        assert_eq!(of(&all, Point::PreScore, "ImageLocality"), 0);
        assert_eq!(of(&all, Point::Filter, "NodeName"), 3, "{cpu}: {all:?}");
        assert_eq!(
            of(&all, Point::Filter, "NodePorts"),
            0,
            "PreFilter skips it"
        );
    }
}

/// S7-253: pods that are alike share the results about nodes, and the node just used is scored again. In 1.36 another one is taken
/// then. Here it is the best node in both, with cached results and in a gang, too.
#[test]
fn s7_253_the_node_just_used_may_be_chosen_again() {
    let node_of = |name: &str, cpu: &str| {
        let node = json!({ "metadata": { "name": name },
            "status": { "allocatable": { "cpu": cpu, "memory": "64Gi", "pods": "20" } } });
        serde_json::from_value::<Node>(node).unwrap()
    };
    let alike = |number: usize| {
        let pod = json!({ "metadata": { "name": format!("p{number}"), "namespace": "default", "uid": format!("u{number}") },
            "spec": { "containers": [{ "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] } });
        serde_json::from_value::<wire::Pod>(pod).unwrap()
    };
    let mut cluster = Cluster::new();
    cluster.add_node(&node_of("large", "16"));
    cluster.add_node(&node_of("small", "2"));
    let framework = Framework::of_default(&mut cluster);
    let mut algorithm = SchedulingAlgorithm::default();
    let mut nodes = Vec::new();
    for number in 0..4 {
        let pod = cluster.pod(alike(number)).unwrap();
        let found = algorithm.schedule(&framework, &cluster, &pod);
        let Ok(found) = found else {
            panic!("pod {number} has no node");
        };
        nodes.push(cluster.node_name(found.chosen).to_owned());
        cluster.assume(pod, found.chosen);
    }
    assert_eq!(nodes, ["large"; 4]);
}
