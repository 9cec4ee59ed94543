//! `evictd-scheduler run` with very large pods.

use crate::live_scheduling::{Live, condition, pod};
use serde_json::{Value, json};

/// A pod with an environment variable of this many `<`. Each takes six bytes on the wire.
fn large(name: &str, node: &str, length: usize) -> Value {
    let mut pod = pod(name, "1", 0);
    pod["spec"]["containers"][0]["env"] = json!([{ "name": "TEXT", "value": "<".repeat(length) }]);
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// The environment variables of a pod with more parts than are read.
fn too_many() -> Value {
    json!(vec![json!({ "name": "A" }); 40_000])
}

/// A pod that cannot be read.
fn unreadable(name: &str, node: &str) -> Value {
    let mut pod = large(name, node, 1);
    pod["spec"]["containers"][0]["env"] = too_many();
    pod
}

#[test]
fn the_largest_pod_of_an_api_server_is_bound_and_delays_no_other() {
    let live = Live::new(&[("one", "4")]);
    live.admin.create(large("large", "", 1_500_000)).unwrap();
    live.admin.create(pod("small", "1", 0)).unwrap();
    assert_eq!(live.bound("default/small"), "one");
    assert_eq!(live.bound("default/large"), "one");
    // A restarted watch gets it in its list.
    live.api.compact();
    live.api.cut_watches();
    live.admin.create(pod("later", "1", 0)).unwrap();
    assert_eq!(live.bound("default/later"), "one");
}

#[test]
fn a_node_with_an_unreadable_pod_gets_no_pod_until_it_is_deleted() {
    let live = Live::new(&[("one", "4"), ("two", "4")]);
    live.admin.create(unreadable("giant", "one")).unwrap();
    // A pod without requests would fit on any node.
    for name in ["a", "b", "c", "d"] {
        live.admin.create(pod(name, "1", 0)).unwrap();
        assert_eq!(live.bound(&format!("default/{name}")), "two");
    }
    let mut free = pod("free", "0", 0);
    free["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "one" });
    live.admin.create(free).unwrap();
    let reported = live.until("default/free", "reported", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    let message = condition(&reported)["message"].to_string();
    assert!(
        message.contains("1 node(s) had a pod whose requests are unknown"),
        "{message}"
    );
    let now = json!({ "gracePeriodSeconds": 0 });
    live.admin.delete("pods", "default/giant", now).unwrap();
    assert_eq!(live.bound("default/free"), "one");
}

#[test]
fn an_unreadable_pending_pod_is_not_tried_and_gets_a_condition() {
    let live = Live::new(&[("one", "4")]);
    live.admin.create(unreadable("giant", "")).unwrap();
    live.admin.create(pod("small", "1", 0)).unwrap();
    assert_eq!(live.bound("default/small"), "one");
    let reported = live.until("default/giant", "reported", |pod| {
        condition(pod)["reason"] == "SchedulerError"
    });
    let message = condition(&reported)["message"].to_string();
    assert!(
        message.contains("cannot read this pod") && message.contains("32768 objects"),
        "{message}"
    );
    // A new pod of the same name is read again.
    let now = json!({ "gracePeriodSeconds": 0 });
    live.admin.delete("pods", "default/giant", now).unwrap();
    live.admin.create(pod("giant", "1", 0)).unwrap();
    assert_eq!(live.bound("default/giant"), "one");
}

#[test]
fn an_assigned_pod_that_becomes_unreadable_keeps_its_last_known_requests() {
    let live = Live::new(&[("one", "4")]);
    live.admin.create(pod("known", "3", 0)).unwrap();
    assert_eq!(live.bound("default/known"), "one");
    let conditions = json!(vec![json!({ "type": "A", "status": "True" }); 40_000]);
    let many = json!({ "status": { "conditions": conditions } });
    live.admin
        .merge("pods/status", "default/known", many)
        .unwrap();
    live.admin.create(pod("fits", "1", 0)).unwrap();
    assert_eq!(live.bound("default/fits"), "one");
    live.admin.create(pod("exceeds", "1", 0)).unwrap();
    let reported = live.until("default/exceeds", "reported", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    let message = condition(&reported)["message"].to_string();
    assert!(message.contains("1 Insufficient cpu"), "{message}");
}
