//! Pods with a claim on devices, one after the other over all nodes, on one thread. kube-scheduler 1.36.2 needs for one pod at
//! 5000 nodes of processor time: `whole` 131 to 146 ms, `selector` 351, `four` 340, `shares` 266, `nofit` 600; for `partition`
//! at 1000 nodes 58.7 s. The choices are kube-scheduler's, device for device.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench"
)]

use evictd_placement::{Cluster, NodeId, device_choices};
use evictd_pod::wire;
use evictd_scheduling::{Framework, SchedulingAlgorithm};
use serde_json::{Value, json};
use std::time::Duration;

const DRIVER: &str = "gpu.example.com";
const MODELS: [(&str, &str); 3] = [("h100", "80Gi"), ("a100", "40Gi"), ("l4", "24Gi")];

/// How the devices of a node are published.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Published {
    Whole,
    Shared,
    Parted,
}

struct Scenario {
    name: &'static str,
    published: Published,
    request: fn() -> Value,
    pods: usize,
    /// FNV-1a over the nodes and devices of the first pods, where all of them fit.
    hash: Option<u64>,
}

fn selected(expression: &str) -> Value {
    json!({ "selectors": [{ "cel": { "expression": expression } }] })
}

const SCENARIOS: [Scenario; 6] = [
    Scenario {
        name: "whole",
        published: Published::Whole,
        request: || json!({}),
        pods: 50,
        hash: Some(0xc84d_c3bd_8e06_d2ce),
    },
    Scenario {
        name: "selector",
        published: Published::Whole,
        request: || {
            selected(
                "device.attributes['gpu.example.com'].model == 'h100' && device.capacity['gpu.example.com'].memory.compareTo(quantity('80Gi')) >= 0",
            )
        },
        pods: 50,
        hash: Some(0x2dee_c58c_ab28_6645),
    },
    Scenario {
        name: "four",
        published: Published::Whole,
        request: || json!({ "count": 4 }),
        pods: 50,
        hash: Some(0x7915_37e1_f175_03f5),
    },
    Scenario {
        name: "nofit",
        published: Published::Whole,
        request: || selected("device.attributes['gpu.example.com'].model == 'none'"),
        pods: 50,
        hash: None,
    },
    Scenario {
        name: "shares",
        published: Published::Shared,
        request: || json!({ "capacity": { "requests": { "memory": "10Gi" } } }),
        pods: 50,
        hash: Some(0x3e96_4458_89c8_8fed),
    },
    Scenario {
        name: "partition",
        published: Published::Parted,
        request: || selected("device.attributes['gpu.example.com'].profile == 'quarter'"),
        pods: 20,
        hash: Some(0xa5cf_7bc0_3896_237b),
    },
];

fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("well formed")
}

/// A claim that has a device already.
fn used(cluster: &mut Cluster, node: &str, device: &str, share: Option<String>) {
    let mut result = json!({ "request": "r", "driver": DRIVER, "pool": node, "device": device });
    if let Some(memory) = share {
        result["shareID"] = json!(device);
        result["consumedCapacity"] = json!({ "memory": memory });
    }
    let name = format!("used-{node}-{device}");
    cluster.devices_mut().put_claim(object(json!({
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "status": { "allocation": { "devices": { "results": [result] } } },
    })));
}

fn gpu(published: Published, h: u64, j: u64) -> Value {
    let (model, memory) = MODELS[usize::try_from((h >> 8) % 3).expect("small")];
    let mut gpu = json!({ "name": format!("gpu-{j}"),
        "attributes": { "model": { "string": model }, "numa": { "int": (h >> 12) % 2 } },
        "capacity": { "memory": { "value": memory } } });
    if published == Published::Shared {
        gpu["allowMultipleAllocations"] = json!(true);
        gpu["capacity"]["memory"] = json!({ "value": "80Gi", "requestPolicy": {
            "default": "10Gi", "validRange": { "min": "1Gi", "step": "1Gi" } } });
    }
    gpu
}

/// The parts of a gpu, and its counters.
fn parts(j: u64) -> (Vec<Value>, Value) {
    let set = format!("gpu-{j}");
    let part = |name: &str, profile: &str, memory: &str, slices: &str| {
        json!({ "name": format!("gpu-{j}-{name}"), "attributes": { "profile": { "string": profile } },
            "consumesCounters": [{ "counterSet": set,
                "counters": { "memory": { "value": memory }, "slices": { "value": slices } } }] })
    };
    let mut all = vec![part("whole", "whole", "80Gi", "8")];
    all.extend((0..2).map(|k| part(&format!("half-{k}"), "half", "40Gi", "4")));
    all.extend((0..4).map(|k| part(&format!("quarter-{k}"), "quarter", "20Gi", "2")));
    let counters = json!({ "name": set,
        "counters": { "memory": { "value": "80Gi" }, "slices": { "value": "8" } } });
    (all, counters)
}

fn add_node(cluster: &mut Cluster, published: Published, i: u64) {
    let name = format!("node-{i:05}");
    cluster.update_node(&object(json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name,
            "topology.kubernetes.io/zone": format!("zone-{}", i % 10) } },
        "status": { "allocatable":
            { "cpu": "16", "memory": "60Gi", "ephemeral-storage": "100Gi", "pods": "110" } },
    })));
    let is_parted = published == Published::Parted;
    let pool =
        json!({ "name": name, "generation": 1, "resourceSliceCount": 1 + u64::from(is_parted) });
    let (mut devices, mut counters) = (Vec::new(), Vec::new());
    for j in 0..8 {
        let h = splitmix64(i * 64 + j);
        match published {
            Published::Whole if h.is_multiple_of(4) => {
                used(cluster, &name, &format!("gpu-{j}"), None);
            }
            Published::Shared if !h.is_multiple_of(9) => {
                let share = format!("{}Gi", 10 * (h % 9));
                used(cluster, &name, &format!("gpu-{j}"), Some(share));
            }
            Published::Parted => {
                let part = ["whole", "half-0", "quarter-0"];
                if let Some(part) = part.get(usize::try_from(h % 4).expect("small")) {
                    used(cluster, &name, &format!("gpu-{j}-{part}"), None);
                }
            }
            Published::Whole | Published::Shared => {}
        }
        if is_parted {
            let (parts, set) = parts(j);
            devices.extend(parts);
            counters.push(set);
        } else {
            devices.push(gpu(published, h, j));
        }
    }
    let mut slice = |what: &str, key: &str, list: Vec<Value>| {
        let mut slice = json!({ "metadata": { "name": format!("{name}-{what}") },
            "spec": { "driver": DRIVER, "nodeName": name, "pool": pool } });
        slice["spec"][key] = list.into();
        cluster.devices_mut().put_slice(object(slice));
    };
    slice("devices", "devices", devices);
    if is_parted {
        slice("counters", "sharedCounters", counters);
    }
}

/// The pod with this number and its claim.
fn incoming(cluster: &mut Cluster, scenario: &Scenario, index: usize) -> wire::Pod {
    let name = format!("bench-{}-{index}", scenario.name);
    let mut exactly = (scenario.request)();
    exactly["deviceClassName"] = json!("gpu");
    cluster.devices_mut().put_claim(object(json!({
        "metadata": { "name": name, "namespace": "default", "uid": format!("claim-{name}") },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": exactly }] } },
    })));
    object(json!({
        "metadata": { "name": name, "namespace": "default", "uid": name, "labels": { "app": "bench" } },
        "spec": { "priority": 0, "resourceClaims": [{ "name": "x", "resourceClaimName": name }],
            "containers": [{ "name": "c", "image": "img",
                "resources": { "requests": { "cpu": "100m", "memory": "200Mi" } } }] },
    }))
}

/// Places a pod. Returns its node and devices.
fn place(
    cluster: &mut Cluster,
    framework: &Framework,
    algorithm: &mut SchedulingAlgorithm,
    pod: wire::Pod,
) -> Option<String> {
    let pod = cluster.pod(pod).expect("well formed");
    let chosen: NodeId = algorithm.schedule(framework, cluster, &pod).ok()?.chosen;
    let choices = device_choices(cluster, &pod, chosen);
    cluster.assume_devices(&pod, &choices);
    cluster.assume(pod, chosen);
    let allocations = choices
        .iter()
        .filter_map(|choice| choice.allocation.as_ref());
    let devices = allocations.flat_map(|allocation| &allocation.devices.results);
    let devices = devices.map(|result| format!(" {}", result.device));
    Some(format!(
        "{}{}",
        cluster.node_name(chosen),
        devices.collect::<String>()
    ))
}

fn fnv1a(hash: u64, text: &str) -> u64 {
    text.bytes().fold(hash, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Processor time of this thread; zero where the system does not say.
fn processor() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}

fn run(scenario: &Scenario, nodes: u64) {
    let mut cluster = Cluster::new();
    cluster.put_device_class(object(json!({ "metadata": { "name": "gpu" },
        "spec": { "selectors": [{ "cel": { "expression": "device.driver == 'gpu.example.com'" } }] } })));
    for i in 0..nodes {
        add_node(&mut cluster, scenario.published, i);
    }
    let framework = Framework::of_default(&mut cluster);
    let mut algorithm = SchedulingAlgorithm::default();
    let pods: Vec<wire::Pod> = (0..scenario.pods)
        .map(|index| incoming(&mut cluster, scenario, index))
        .collect();
    let (mut hash, mut times) = (0xcbf2_9ce4_8422_2325, Vec::new());
    for pod in pods {
        let before = processor();
        let placed = place(&mut cluster, &framework, &mut algorithm, pod);
        times.push(processor().saturating_sub(before));
        if let Some(placed) = placed {
            hash = fnv1a(hash, &format!("{placed}\n"));
        }
    }
    let (first, rest) = times.split_first().expect("there are pods");
    let others = rest.iter().sum::<Duration>() / u32::try_from(rest.len()).unwrap_or(1);
    let name = scenario.name;
    println!(
        "{nodes} nodes, {name}: {first:?} of processor for the first pod, {others:?} for each other"
    );
    if let Some(expected) = scenario.hash {
        assert_eq!(hash, expected, "{name} at {nodes} nodes: {hash:016x}");
    }
}

/// Without optimisation it is only seen that the choices are right.
const NODES: &[u64] = if cfg!(debug_assertions) {
    &[100]
} else {
    &[100, 1000, 5000]
};

fn main() {
    for nodes in NODES {
        for scenario in &SCENARIOS {
            run(scenario, *nodes);
        }
    }
}
