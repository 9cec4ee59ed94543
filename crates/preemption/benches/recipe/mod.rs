//! The cluster that kube-scheduler 1.36.2 was timed with: N nodes with 30 pods each, ten budgets, and one pod that needs
//! several of them to go.

use evictd_placement::{Cluster, Pod};
use evictd_pod::{Node, wire};
use evictd_preemption::Budget;
use serde_json::{Value, json};

pub(crate) const PODS: u64 = 30;

/// A cluster, its budgets and a pod that does not fit.
pub(crate) struct Recipe {
    /// Nodes and pods.
    pub(crate) cluster: Cluster,
    /// Half of them allow nothing, half one pod.
    pub(crate) budgets: Vec<Budget>,
    /// 6 cores and 24 GiB.
    pub(crate) preemptor: Pod,
}

/// A well mixed number.
fn splitmix64(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("the recipe's objects are well formed")
}

pub(crate) fn node(i: u64) -> Value {
    let name = format!("node-{i:05}");
    json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/hostname": name } },
        "status": { "allocatable":
            { "cpu": "16", "memory": "60Gi", "ephemeral-storage": "100Gi", "pods": "110" } },
    })
}

pub(crate) fn pod(i: u64, j: u64) -> Value {
    let h = splitmix64(i * 64 + j);
    let seconds = ((h >> 24) % 70_000) * 30 + j;
    let start = jiff::Timestamp::from_second(1_767_225_600 + i64::try_from(seconds).unwrap_or(0));
    json!({
        "metadata": { "name": format!("pod-{i:05}-{j:02}"), "namespace": "default",
            "labels": { "app": format!("app-{}", (h >> 16) % 12) } },
        "spec": { "nodeName": format!("node-{i:05}"), "priority": 100 * ((h >> 8) % 10),
            "containers": [{ "name": "c", "resources": { "requests": {
                "cpu": format!("{}m", 300 + 100 * (h % 4)),
                "memory": format!("{}Mi", 1024 + 256 * ((h >> 4) % 6)) } } }] },
        "status": { "phase": "Running", "startTime": start.expect("a time").to_string() },
    })
}

/// The changes that a workload makes to the plain recipe.
pub(crate) trait Extra {
    /// Changes a node.
    fn node(&self, _i: u64, _node: &mut Value) {}
    /// Changes a pod.
    fn pod(&self, _i: u64, _j: u64, _pod: &mut Value) {}
    /// Changes the preemptor.
    fn preemptor(&self, _pod: &mut Value) {}
}

/// Nothing.
#[derive(Clone, Copy)]
pub(crate) struct Plain;
impl Extra for Plain {}

/// Makes the cluster of `nodes` nodes.
pub(crate) fn build(nodes: u64, extra: &impl Extra) -> Recipe {
    let mut cluster = Cluster::new();
    for i in 0..nodes {
        let mut value = node(i);
        extra.node(i, &mut value);
        cluster.add_node(&object::<Node>(value));
        for j in 0..PODS {
            let mut value = pod(i, j);
            extra.pod(i, j, &mut value);
            let added = cluster.add_pod(object::<wire::Pod>(value));
            added.expect("the recipe's pods are well formed");
        }
    }
    cluster.shrink();
    let budgets = (0..10).map(|k| {
        let budget = json!({
            "metadata": { "name": format!("pdb-{k}"), "namespace": "default" },
            "spec": { "selector": { "matchLabels": { "app": format!("app-{k}") } } },
            "status": { "disruptionsAllowed": k % 2 },
        });
        Budget::new(&mut cluster, &object(budget)).expect("a well formed selector")
    });
    let budgets = budgets.collect();
    let mut preemptor = json!({
        "metadata": { "name": "preemptor", "namespace": "default", "uid": "preemptor" },
        "spec": { "priority": 10_000, "containers": [{ "name": "c", "resources": { "requests":
            { "cpu": "6", "memory": "24Gi" } } }] },
    });
    extra.preemptor(&mut preemptor);
    let preemptor = cluster.pod(object(preemptor)).expect("a well formed pod");
    Recipe {
        cluster,
        budgets,
        preemptor,
    }
}
