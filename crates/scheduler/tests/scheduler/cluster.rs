//! A small cluster: one node of 4 cores that two pods fill, and a pod that wants half of it.

use evictd_testkit::objects;
use serde_json::{Value, json};

pub(crate) fn list(items: &[Value]) -> String {
    json!({ "apiVersion": "v1", "items": items, "kind": "List" }).to_string()
}

pub(crate) fn node(name: &str) -> Value {
    let node = objects::node(name).uid(&format!("uid-of-{name}"));
    node.cpu("4").memory("8Gi").json()
}

/// A pod of 2 cores on `node`.
pub(crate) fn pod(name: &str, node: &str, priority: i32) -> Value {
    let pod = objects::pod(name).namespace("shop").label("app", name);
    let pod = pod.uid(&format!("uid-of-{name}")).cpu("2").memory("1Gi");
    let status = json!({ "phase": "Running", "startTime": "2026-01-01T00:00:00Z" });
    pod.on(node)
        .priority(priority)
        .set("/status", status)
        .json()
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
