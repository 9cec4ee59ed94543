//! A small cluster: one node of 4 cores that two pods fill, and a pod that wants half of it.

use serde_json::{Value, json};

pub(crate) fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "items": items, "kind": "List" }).to_string()
}

pub(crate) fn node(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "uid": format!("uid-of-{name}") },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "110" } },
    })
}

/// A pod of 2 cores on `node`.
pub(crate) fn pod(name: &str, node: &str, priority: i32) -> Value {
    let requests = json!({ "cpu": "2", "memory": "1Gi" });
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "shop", "uid": format!("uid-of-{name}"), "labels": { "app": name } },
        "spec": {
            "containers": [{ "name": "c", "resources": { "requests": requests } }],
            "nodeName": node, "priority": priority,
        },
        "status": { "phase": "Running", "startTime": "2026-01-01T00:00:00Z" },
    })
}

pub(crate) fn cluster() -> Vec<Value> {
    vec![node("one"), pod("cheap", "one", 1), pod("dear", "one", 5)]
}

/// A pod that waits.
pub(crate) fn pending(priority: i32) -> Value {
    let mut pending = pod("pending", "", priority);
    pending["status"] = json!({ "phase": "Pending" });
    pending
}
