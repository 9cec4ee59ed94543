//! `evictd-scheduler run` and pod groups: all pods are bound, or none.

use crate::live_scheduling::{Live, node, node_of, pod};
use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::program;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::net::TcpListener;

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

/// A composite group that needs so many of its groups.
pub(crate) fn composite(name: &str, least: i32, parent: &str) -> Value {
    json!({ "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minGroupCount": least } }, "parentCompositePodGroupName": parent } })
}

/// A group in a tree.
pub(crate) fn child(name: &str, min_count: i32, parent: &str) -> Value {
    let mut group = group(name, min_count, 0);
    group["spec"]["parentCompositePodGroupName"] = json!(parent);
    group
}

/// Waits until a condition of a group has this status, and returns its message.
pub(crate) fn condition(live: &Live, group: &str, kind: &str, status: &str) -> String {
    condition_of(live, ("podgroups", group), kind, status)
}

fn condition_of(live: &Live, (resource, group): (&str, &str), kind: &str, status: &str) -> String {
    let mut message = None;
    wait_until(&format!("{kind} of {group} is {status}"), || {
        let found = live.admin.get(resource, group).unwrap_or_default();
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
    // S7-055: events are about the pods only.
    let events = live.admin.list("events");
    let kinds: Vec<&Value> = events
        .iter()
        .flat_map(|event| {
            [
                &event["regarding"]["kind"],
                &event["involvedObject"]["kind"],
            ]
        })
        .filter(|kind| !kind.is_null())
        .collect();
    assert!(kinds.contains(&&json!("Pod")) && !kinds.contains(&&json!("PodGroup")));
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

/// T66, T74 and S7-111: the pods of a tree are bound when all its groups fit, and every group has its condition.
#[test]
fn a_tree_is_bound_when_enough_of_its_groups_fit_and_its_root_gets_the_condition() {
    const ROOT: (&str, &str) = ("compositepodgroups", "default/jobs");
    const KIND: &str = "CompositePodGroupInitiallyScheduled";
    let live = Live::new(&[("one", "2")]);
    live.admin.create(composite("jobs", 2, "")).unwrap();
    for name in ["driver", "workers"] {
        live.admin.create(child(name, 1, "jobs")).unwrap();
    }
    live.admin
        .create(member("workers-0", "workers", "2", 0))
        .unwrap();
    live.admin.create(pod("other", "1", 0)).unwrap();
    live.bound("default/other");
    assert!(
        node_of(&live, "workers-0").is_null(),
        "one group is missing"
    );
    live.admin
        .create(member("driver-0", "driver", "1", 0))
        .unwrap();
    let message = condition_of(&live, ROOT, KIND, "False");
    let short =
        "(PodGroup default/workers: minCount (1) cannot be satisfied: 0 scheduled, 0 remaining)";
    assert!(message.ends_with(short), "{message}");
    let message = condition(
        &live,
        "default/driver",
        "PodGroupInitiallyScheduled",
        "False",
    );
    let of_root = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
    assert!(message.starts_with(of_root), "{message}");
    assert!(node_of(&live, "driver-0").is_null());
    node(&live.admin, "two", "4");
    for name in ["driver-0", "workers-0"] {
        live.bound(&format!("default/{name}"));
    }
    for group in ["default/driver", "default/workers"] {
        condition(&live, group, "PodGroupInitiallyScheduled", "True");
    }
    assert_eq!(condition_of(&live, ROOT, KIND, "True"), "");
}

/// S7-123: also without any pod.
#[test]
fn a_cycle_of_composite_groups_is_written_into_their_conditions() {
    let live = Live::new(&[("one", "2")]);
    live.admin.create(composite("a", 1, "b")).unwrap();
    live.admin.create(composite("b", 1, "a")).unwrap();
    for name in ["a", "b"] {
        let group = format!("default/{name}");
        let group = ("compositepodgroups", &*group);
        let message = condition_of(&live, group, "CompositePodGroupInitiallyScheduled", "False");
        assert!(message.contains("is an ancestor of itself"), "{message}");
        let stored = live.admin.get("compositepodgroups", group.1).unwrap();
        assert_eq!(stored["status"]["conditions"][0]["reason"], "Invalid");
    }
}

/// The table and JSON of `pending` agree, and `top` counts the pod as the metrics do.
#[test]
fn s7_021_pending_and_metrics_say_why_a_pod_of_an_unknown_group_waits() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let secure = format!("--secure-port={port}");
    let arguments = [
        secure.as_str(),
        "--bind-address=127.0.0.1",
        "--authorization-always-allow-paths=/v1/pending,/v1/decisions,/metrics",
        "--emulated-version=1.37",
    ];
    let live = Live::with(ApiServer::start().unwrap(), &[("one", "2")], &arguments);
    live.admin
        .create(member("train-0", "train", "1", 0))
        .unwrap();
    let server = format!("https://127.0.0.1:{port}");
    let shown = |arguments: &[&str]| {
        let mut command = scheduler();
        command.args(arguments).args(["--server", &server]);
        command.arg("--insecure-skip-tls-verify");
        command.arg("--kubeconfig").arg(live.kubeconfig_path());
        command.env("COLUMNS", "160");
        String::from_utf8(program::run(&mut command, "").stdout).unwrap()
    };
    let why = "its PodGroup default/train does not exist in scheduling.k8s.io/v1beta1";
    wait_until("pending says why", || shown(&["pending"]).contains(why));
    let answer: Value = serde_json::from_str(&shown(&["pending", "-o", "json"])).unwrap();
    let pod = &answer["pods"][0];
    assert_eq!(
        (&pod["pool"], &pod["message"]),
        (&json!("gated"), &json!(why))
    );
    wait_until("top counts it", || {
        let page = shown(&["top"]);
        page.contains("gated 0") && page.contains("incomplete 1")
    });
}
