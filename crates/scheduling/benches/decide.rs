//! One decision after the other over all nodes, on one thread, each pod placed before the next comes. kube-scheduler
//! 1.36.2 needs for one pod of `plain`, `spread`, `anti` and `preferred` at 5000 nodes with 150 000 pods, all nodes
//! considered, on one thread: 13, 61, 85 and 93 ms. The choices are the same as its own, node for node.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench"
)]

#[allow(dead_code, reason = "the bench of preemption needs more of it")]
#[path = "../../preemption/benches/recipe/mod.rs"]
mod recipe;

use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire;
use evictd_scheduling::{Chunk, Framework, Parallelizer, SchedulingAlgorithm};
use recipe::{Extra, build};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Zones, ten of them.
#[derive(Clone, Copy)]
struct Zones;

impl Extra for Zones {
    fn node(&self, i: u64, node: &mut Value) {
        node["metadata"]["labels"]["topology.kubernetes.io/zone"] =
            json!(format!("zone-{}", i % 10));
    }
}

/// What is asked of the scheduler, and the node that the real one takes for the first 50 pods: FNV-1a over their names.
struct Scenario {
    name: &'static str,
    spec: fn(&mut Value),
    hashes: [u64; 3],
}

const SCENARIOS: [Scenario; 4] = [
    Scenario {
        name: "plain",
        spec: |_| {},
        hashes: [
            0x39bc_fe10_ab40_9495,
            0x7001_7760_af86_e09b,
            0xf318_1386_90d9_9d16,
        ],
    },
    Scenario {
        name: "spread",
        spec: |pod| {
            pod["spec"]["topologySpreadConstraints"] = json!([{
                "maxSkew": 5, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": { "matchLabels": { "app": "bench" } } }]);
        },
        hashes: [
            0x4ff6_7c32_ddf3_5163,
            0xc386_2342_11f5_bdd9,
            0x81fd_f42e_fef3_b794,
        ],
    },
    Scenario {
        name: "anti",
        spec: |pod| {
            pod["spec"]["affinity"] = json!({ "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{ "topologyKey": "kubernetes.io/hostname",
                    "labelSelector": { "matchLabels": { "app": "bench" } } }] } });
        },
        hashes: [
            0x2dc4_bfc4_138c_da98,
            0x6875_819b_e931_7167,
            0xc65f_a8ce_a060_e818,
        ],
    },
    Scenario {
        name: "preferred",
        spec: |pod| {
            pod["spec"]["affinity"] = json!({ "podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{ "weight": 10, "podAffinityTerm": {
                    "topologyKey": "topology.kubernetes.io/zone",
                    "labelSelector": { "matchLabels": { "app": "app-3" } } } }] } });
        },
        hashes: [
            0x9440_c9f5_0a97_181e,
            0x0a59_9351_25b9_df88,
            0x0cd0_9a2d_a028_f2e6,
        ],
    },
];

/// Without optimisation it is only seen that the choices are right. `EVICTD_BENCH_NODES` sets another number, for which
/// the real one's choices are not known.
const NODES: &[u64] = if cfg!(debug_assertions) {
    &[100]
} else {
    &[100, 1000, 5000]
};

/// The pods of a scenario; every one has a label of its own where templates are not shared.
fn incoming(scenario: &Scenario, index: usize, distinct_templates: bool) -> wire::Pod {
    let mut pod = json!({
        "metadata": { "name": format!("bench-{index}"), "namespace": "default", "uid": format!("bench-{index}"),
            "labels": { "app": "bench" } },
        "spec": { "priority": 0, "containers": [{ "name": "c", "image": "img",
            "resources": { "requests": { "cpu": "100m", "memory": "200Mi" } } }] },
    });
    (scenario.spec)(&mut pod);
    if distinct_templates {
        pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"] =
            pod["metadata"]["name"].clone();
    }
    serde_json::from_value(pod).expect("well formed")
}

/// Decides about a pod and places it: of the nodes with the highest total the one with the lowest name.
fn place(
    cluster: &mut Cluster,
    framework: &Framework,
    algorithm: &mut SchedulingAlgorithm,
    pod: wire::Pod,
) -> NodeId {
    let pod = cluster.pod(pod).expect("well formed");
    let found = algorithm.schedule(framework, cluster, &pod);
    let chosen = found.expect("it fits").chosen;
    cluster.assume(pod, chosen);
    chosen
}

fn fnv1a(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Processor time of this thread, which is what a decision takes whatever else the machine does. The system counts it every few
/// milliseconds, so that it says little of plain pods; zero where it does not say.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

/// Places 50 pods; the hash of their nodes, and of one the time and the processor time of this thread.
fn run(
    cluster: &mut Cluster,
    framework: &Framework,
    scenario: &Scenario,
    distinct_templates: bool,
) -> (u64, Duration, Duration) {
    let pods: Vec<wire::Pod> = (0..50)
        .map(|index| incoming(scenario, index, distinct_templates))
        .collect();
    let mut algorithm = SchedulingAlgorithm::default();
    let (start, before) = (Instant::now(), processor());
    let nodes: Vec<NodeId> = pods
        .iter()
        .map(|pod| place(cluster, framework, &mut algorithm, pod.clone()))
        .collect();
    let (took, processor_time) = (
        start.elapsed() / 50,
        processor().saturating_sub(before) / 50,
    );
    let names = nodes
        .iter()
        .map(|id| format!("{}\n", cluster.node_name(*id)));
    let hash = names.fold(0xcbf2_9ce4_8422_2325, |hash, name| fnv1a(hash, &name));
    for pod in &pods {
        assert!(cluster.remove_pod(&pod.metadata));
    }
    (hash, took, processor_time)
}

/// How many pods are placed to see whether the last ones take longer than the first; a cluster of the recipe takes as many.
const MANY: usize = if cfg!(debug_assertions) {
    1000
} else {
    100_000
};

/// Places many pods, each with a label of its own, and tells how long one of each tenth of them took.
fn run_many(cluster: &mut Cluster, framework: &Framework) {
    let plain = &SCENARIOS[0];
    let mut algorithm = SchedulingAlgorithm::default();
    for tenth in 0..10 {
        let indices = tenth * MANY / 10..(tenth + 1) * MANY / 10;
        let pods: Vec<wire::Pod> = indices
            .clone()
            .map(|index| incoming(plain, index, true))
            .collect();
        let before = processor();
        for pod in pods {
            place(cluster, framework, &mut algorithm, pod);
        }
        let processor_time =
            processor().saturating_sub(before) / u32::try_from(indices.len()).expect("a tenth");
        println!(
            "plain, a template a pod, pods {indices:?}: {processor_time:?} of processor a pod"
        );
    }
}

/// Two threads.
struct Two;

impl Parallelizer for Two {
    fn count(&self) -> usize {
        2
    }

    fn run(&self, mut parts: Vec<Chunk<'_>>) {
        let last = parts.pop();
        std::thread::scope(|threads| {
            for part in parts {
                threads.spawn(part);
            }
            if let Some(last) = last {
                last();
            }
        });
    }
}

fn main() {
    let chosen = std::env::var("EVICTD_BENCH_NODES");
    let chosen: Option<u64> = chosen.ok().and_then(|nodes| nodes.parse().ok());
    let sizes = chosen.map_or(NODES.to_vec(), |nodes| vec![nodes]);
    for nodes in sizes {
        let mut recipe = build(nodes, &Zones);
        let known = NODES.iter().position(|count| *count == nodes);
        let cluster = &mut recipe.cluster;
        let one = Framework::of_default(cluster);
        let mut two = one.clone();
        two.parallelizer = Arc::new(Two);
        for scenario in &SCENARIOS {
            for (distinct_templates, kind) in
                [(false, "equal templates"), (true, "a template a pod")]
            {
                let (hash, took, processor) = run(cluster, &one, scenario, distinct_templates);
                let (same, split, _) = run(cluster, &two, scenario, distinct_templates);
                let name = scenario.name;
                println!(
                    "{nodes} nodes, {name}, {kind}: {took:?} a pod ({processor:?} of processor), on two threads {split:?}"
                );
                assert_eq!(hash, same, "{name} at {nodes} nodes, on two threads");
                if let Some(size) = known {
                    assert_eq!(hash, scenario.hashes[size], "{name} at {nodes} nodes");
                }
            }
        }
        if Some(nodes) == NODES.last().copied() {
            run_many(cluster, &one);
        }
    }
}
