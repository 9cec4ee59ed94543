//! The cluster on which kube-scheduler was measured, as a dump: 30 pods a node, with amounts from a hash of their index.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::io::{self, Write};

fn hash(node: usize, pod: usize) -> u64 {
    let seed = u64::try_from(node * 64 + pod).unwrap();
    let x = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Writes the dump as kubectl prints it. Pods of less than `pod_bytes` are filled up with fields of real ones.
pub(super) fn write(to: &mut impl Write, nodes: usize, pod_bytes: usize) -> io::Result<()> {
    let mut separator = r#"{"apiVersion":"v1","items":["#;
    let mut item = |to: &mut dyn Write, item: Value| {
        let result = write!(to, "{separator}{item}");
        separator = ",";
        result
    };
    for index in 0..nodes {
        item(to, node(index))?;
    }
    for index in 0..nodes {
        for number in 0..30 {
            let mut pod = pod(index, number);
            if pod_bytes > 0 {
                fill(&mut pod, pod_bytes);
            }
            item(to, pod)?;
        }
    }
    for index in 0..10 {
        item(to, budget(index))?;
    }
    to.write_all(br#"],"kind":"List","metadata":{"resourceVersion":""}}"#)
}

fn node(index: usize) -> Value {
    let name = format!("node-{index:05}");
    let amounts =
        json!({ "cpu": "16", "ephemeral-storage": "100Gi", "memory": "60Gi", "pods": "110" });
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "labels": { "kubernetes.io/hostname": name }, "name": name },
        "status": { "allocatable": amounts, "capacity": amounts },
    })
}

fn pod(node: usize, number: usize) -> Value {
    let h = hash(node, number);
    let seconds =
        i64::try_from(((h >> 24) % 70_000) * 30).unwrap() + i64::try_from(number).unwrap();
    let epoch: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let requests = json!({
        "cpu": format!("{}m", 300 + 100 * (h % 4)),
        "memory": format!("{}Mi", 1024 + 256 * ((h >> 4) % 6)),
    });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "labels": { "app": format!("app-{}", (h >> 16) % 12) },
            "name": format!("pod-{node:05}-{number:02}"), "namespace": "default",
            "uid": format!("{node:08x}-{number:04x}-4000-8000-{:012x}", h >> 16),
        },
        "spec": {
            "containers": [{ "name": "main", "resources": { "requests": requests } }],
            "nodeName": format!("node-{node:05}"), "priority": 100 * ((h >> 8) % 10),
        },
        "status": { "phase": "Running", "startTime": epoch + SignedDuration::from_secs(seconds) },
    })
}

fn budget(index: usize) -> Value {
    let app = format!("app-{index}");
    json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": app, "namespace": "default" },
        "spec": { "selector": { "matchLabels": { "app": app } } },
        "status": { "disruptionsAllowed": index % 2 },
    })
}

/// The fields that make pods of real clusters large.
fn fill(pod: &mut Value, bytes: usize) {
    let fields: Value = (0..60)
        .map(|field| (format!("f:field{field}"), json!({})))
        .collect();
    let fields = json!({ "f:metadata": { "f:labels": fields }, "f:spec": { "k:{\"name\":\"main\"}": fields } });
    pod["metadata"]["managedFields"] = json!([{
        "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields,
        "manager": "kube-controller-manager", "operation": "Update", "time": "2026-01-01T00:00:00Z",
    }]);
    let variable = |index| json!({ "name": format!("VARIABLE_{index}"), "value": format!("the value of {index}") });
    let main = &mut pod["spec"]["containers"][0];
    main["env"] = (0..24).map(variable).collect();
    main["image"] = json!("registry.example.com/team/app:1.2.3");
    let condition = |kind| json!({ "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z", "status": "True", "type": kind });
    let kinds = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    pod["status"]["conditions"] = kinds.into_iter().map(condition).collect();
    pod["status"]["containerStatuses"] = json!([{
        "containerID": format!("containerd://{}", "a".repeat(64)), "image": "registry.example.com/team/app:1.2.3",
        "name": "main", "ready": true, "restartCount": 0, "state": { "running": { "startedAt": "2026-01-01T00:00:00Z" } },
    }]);
    let manifest = json!({ "kind": "Pod", "spec": pod["spec"] }).to_string();
    pod["metadata"]["annotations"] =
        json!({ "kubectl.kubernetes.io/last-applied-configuration": manifest });
    let missing = bytes.saturating_sub(pod.to_string().len() + 30);
    pod["metadata"]["annotations"]["example.com/notes"] = json!("x".repeat(missing));
}
