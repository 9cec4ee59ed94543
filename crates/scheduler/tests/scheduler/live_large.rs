//! `evictd-scheduler run` in a cluster with pods as large as their authors like.

use crate::live_scheduling::{Live, condition, pod};
use serde_json::{Value, json};

/// A pod with an environment variable of so many `<`, each of which takes six bytes on the wire.
fn large(name: &str, node: &str, length: usize) -> Value {
    let mut pod = pod(name, "1", 0);
    pod["spec"]["containers"][0]["env"] = json!([{ "name": "TEXT", "value": "<".repeat(length) }]);
    if !node.is_empty() {
        pod["spec"]["nodeName"] = node.into();
    }
    pod
}

/// Environment variables of a pod that has more parts than are read.
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
fn a_pod_as_large_as_an_api_server_takes_is_placed_and_hinders_no_other() {
    let live = Live::new(&[("one", "4")]);
    live.admin.create(large("large", "", 1_500_000)).unwrap();
    live.admin.create(pod("small", "1", 0)).unwrap();
    assert_eq!(live.bound("default/small"), "one");
    assert_eq!(live.bound("default/large"), "one");
    // A watch that begins anew gets it in its list.
    live.api.compact();
    live.api.cut_watches();
    live.admin.create(pod("later", "1", 0)).unwrap();
    assert_eq!(live.bound("default/later"), "one");
}

#[test]
fn a_node_with_a_pod_that_cannot_be_read_takes_no_other_until_it_is_gone() {
    let live = Live::new(&[("one", "4"), ("two", "4")]);
    live.admin.create(unreadable("giant", "one")).unwrap();
    // Without requests a pod fits everywhere else.
    for name in ["a", "b", "c", "d"] {
        live.admin.create(pod(name, "1", 0)).unwrap();
        assert_eq!(live.bound(&format!("default/{name}")), "two");
    }
    let mut free = pod("free", "0", 0);
    free["spec"]["nodeSelector"] = json!({ "kubernetes.io/hostname": "one" });
    live.admin.create(free).unwrap();
    let told = live.until("default/free", "told why not", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    let message = condition(&told)["message"].to_string();
    assert!(
        message.contains("1 node(s) had a pod whose requests are unknown"),
        "{message}"
    );
    let now = json!({ "gracePeriodSeconds": 0 });
    live.admin.delete("pods", "default/giant", now).unwrap();
    assert_eq!(live.bound("default/free"), "one");
}

#[test]
fn a_pod_that_waits_and_cannot_be_read_is_not_tried_and_says_so() {
    let live = Live::new(&[("one", "4")]);
    live.admin.create(unreadable("giant", "")).unwrap();
    live.admin.create(pod("small", "1", 0)).unwrap();
    assert_eq!(live.bound("default/small"), "one");
    let told = live.until("default/giant", "told why not", |pod| {
        condition(pod)["reason"] == "SchedulerError"
    });
    let message = condition(&told)["message"].to_string();
    assert!(
        message.contains("cannot read this pod") && message.contains("32768 objects"),
        "{message}"
    );
    // Another pod of its name is another pod.
    let now = json!({ "gracePeriodSeconds": 0 });
    live.admin.delete("pods", "default/giant", now).unwrap();
    live.admin.create(pod("giant", "1", 0)).unwrap();
    assert_eq!(live.bound("default/giant"), "one");
}

#[test]
fn a_pod_with_a_node_that_cannot_be_read_any_more_keeps_its_last_known_requests() {
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
    let told = live.until("default/exceeds", "told why not", |pod| {
        condition(pod)["reason"] == "Unschedulable"
    });
    let message = condition(&told)["message"].to_string();
    assert!(message.contains("1 Insufficient cpu"), "{message}");
}
