//! `evictd-scheduler run` and pod groups: all pods are bound, or none.

use crate::live_scheduling::{Live, node, node_of, pod};
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};

pub(crate) fn member(name: &str, group: &str, cpu: &str, priority: i32) -> Value {
    let mut pod = pod(name, cpu, priority);
    pod["spec"]["schedulingGroup"] = json!({ "podGroupName": group });
    pod
}

pub(crate) fn group(name: &str, min_count: i32, priority: i32) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } }, "priority": priority } })
}

/// Waits until a condition of a group has this status, and returns its message.
pub(crate) fn condition(live: &Live, group: &str, kind: &str, status: &str) -> String {
    let mut message = None;
    wait_until(&format!("{kind} of {group} is {status}"), || {
        let found = live.admin.get("podgroups", group).unwrap_or_default();
        let mut conditions = found["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default()
            .into_iter();
        let condition =
            conditions.find(|condition| condition["type"] == kind && condition["status"] == status);
        message = condition.map(|condition| condition["message"].as_str().unwrap_or("").to_owned());
        message.is_some()
    });
    message.unwrap()
}

#[test]
fn a_gang_is_bound_when_all_its_pods_fit_and_its_group_gets_the_condition() {
    let live = Live::new(&[("one", "2")]);
    live.admin.create(group("train", 3, 0)).unwrap();
    for index in 0..3 {
        let name = format!("train-{index}");
        live.admin.create(member(&name, "train", "1", 0)).unwrap();
    }
    let message = condition(
        &live,
        "default/train",
        "PodGroupInitiallyScheduled",
        "False",
    );
    assert_eq!(
        message,
        "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining, pod group preemption: No preemption victims found for \
         incoming preemptor"
    );
    let is_reported = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned();
        conditions
            .unwrap_or_default()
            .iter()
            .any(|condition| condition["reason"] == "Unschedulable")
    };
    for index in 0..3 {
        live.until(&format!("default/train-{index}"), "reported", is_reported);
        assert!(node_of(&live, &format!("train-{index}")).is_null());
    }
    node(&live.admin, "two", "2");
    for index in 0..3 {
        live.bound(&format!("default/train-{index}"));
    }
    let message = condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
    assert_eq!(message, "");
}

#[test]
fn victims_are_preempted_for_a_whole_gang() {
    let live = Live::new(&[("one", "2"), ("two", "2"), ("three", "2")]);
    for name in ["a", "b", "c"] {
        live.admin.create(pod(name, "1500m", 0)).unwrap();
    }
    for name in ["a", "b", "c"] {
        live.bound(&format!("default/{name}"));
    }
    live.admin.create(group("train", 2, 1000)).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        live.admin
            .create(member(&name, "train", "1500m", 1000))
            .unwrap();
    }
    wait_until("the gang has its nodes", || {
        // As kubelets end terminating pods.
        for pod in live.admin.list("pods") {
            if !pod["metadata"]["deletionTimestamp"].is_null() {
                let name = pod["metadata"]["name"].as_str().unwrap();
                let now = json!({ "gracePeriodSeconds": 0 });
                let _ = live.admin.delete("pods", &format!("default/{name}"), now);
            }
        }
        node_of(&live, "train-0").is_string() && node_of(&live, "train-1").is_string()
    });
    let left = live.admin.list("pods").len();
    assert_eq!(left, 3, "two pods are preempted for two, and no other");
}

#[test]
fn a_pod_waits_until_its_group_exists() {
    let live = Live::new(&[("one", "2")]);
    live.admin.create(member("early", "late", "1", 0)).unwrap();
    live.admin.create(pod("other", "1", 0)).unwrap();
    live.bound("default/other");
    assert!(node_of(&live, "early").is_null());
    live.admin.create(group("late", 1, 0)).unwrap();
    live.bound("default/early");
}
