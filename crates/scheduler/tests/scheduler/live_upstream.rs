//! `evictd-scheduler run --batch-conf` and Kubernetes' pod groups as jobs of queues.

use crate::live_batch::{conf, queue, start_at};
use crate::live_groups::{condition, group, member};
use crate::live_scheduling::{Live, node, node_of, pod};
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};

const VOLCANO_GROUPS: &str = "podgroups.scheduling.volcano.sh";
const QUEUE: &str = "scheduling.volcano.sh/queue-name";
const ACTIONS: &str = "enqueue, allocate, backfill";

fn of_batch(name: &str, group: &str) -> Value {
    let mut pod = member(name, group, "1", 0);
    pod["spec"]["schedulerName"] = json!("volcano");
    pod
}

/// Makes the pods of a gang.
fn members(live: &Live, group: &str, count: usize) {
    for index in 0..count {
        let pod = of_batch(&format!("{group}-{index}"), group);
        live.admin.create(pod).unwrap();
    }
}

fn all_bound(live: &Live, group: &str, count: usize) {
    for index in 0..count {
        live.bound(&format!("default/{group}-{index}"));
    }
}

/// A server with Kubernetes' kinds and queues, and without Volcano's groups.
fn only_queues() -> ApiServer {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.unknown_kinds = vec![VOLCANO_GROUPS]);
    for name in ["root", "default", "gold"] {
        queue(&api.actor("admin"), name);
    }
    api
}

#[test]
fn a_gang_of_a_queue_is_bound_together_and_its_group_gets_the_condition_but_no_phase() {
    let conf = conf(ACTIONS);
    let live = start_at(only_queues(), &[("one", "2")], &conf);
    let mut train = group("train", 3, 0);
    train["spec"]["workloadRef"] = json!({ "workloadName": "train", "templateName": "workers" });
    let workload = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload",
        "metadata": { "name": "train", "namespace": "default", "labels": { QUEUE: "gold" } },
        "spec": { "podGroupTemplates": [] } });
    live.admin.create(workload).unwrap();
    members(&live, "train", 3);
    live.admin.create(train).unwrap();
    let message = condition(
        &live,
        "default/train",
        "PodGroupInitiallyScheduled",
        "False",
    );
    assert!(message.contains("tasks in gang unschedulable"), "{message}");
    assert!(node_of(&live, "train-0").is_null());
    node(&live.admin, "two", "1");
    all_bound(&live, "train", 3);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
    wait_until("the queue of the workload has it", || {
        let gold = live.admin.get("queues", "gold").unwrap();
        gold["status"]["allocated"]["cpu"] == "3"
    });
    let stored = live.admin.get("podgroups", "default/train").unwrap();
    let fields: Vec<&String> = stored["status"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["conditions"]);
}

#[test]
fn a_group_of_a_missing_queue_gets_a_condition_and_waits_for_the_queue() {
    let conf = conf(ACTIONS);
    let live = start_at(only_queues(), &[("one", "2")], &conf);
    let mut train = group("train", 2, 0);
    train["metadata"]["annotations"] = json!({ QUEUE: "silver" });
    live.admin.create(train).unwrap();
    members(&live, "train", 2);
    let message = condition(
        &live,
        "default/train",
        "PodGroupInitiallyScheduled",
        "False",
    );
    assert_eq!(message, "queue \"silver\" does not exist");
    queue(&live.admin, "silver");
    all_bound(&live, "train", 2);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
}

#[test]
fn a_gang_with_a_topology_constraint_waits_for_a_domain_that_fits_it() {
    let conf = conf(ACTIONS);
    let live = start_at(only_queues(), &[("one", "2"), ("two", "2")], &conf);
    let mut train = group("train", 3, 0);
    train["spec"]["schedulingConstraints"] = json!({ "topology": [{ "key": "rack" }] });
    live.admin.create(train).unwrap();
    members(&live, "train", 3);
    let until_reported = |words: &str| {
        wait_until(&format!("the group has the message: {words}"), || {
            let message = condition(
                &live,
                "default/train",
                "PodGroupInitiallyScheduled",
                "False",
            );
            message.contains(words)
        });
    };
    let label = |node: &str, rack: &str| {
        let labels = json!({ "metadata": { "labels": { "rack": rack } } });
        live.admin.merge("nodes", node, labels).unwrap();
    };
    until_reported("no node has the label rack");
    label("one", "a");
    label("two", "b");
    until_reported("at best there is room for 2 of 3, on those with rack=a");
    node(&live.admin, "three", "1");
    label("three", "b");
    all_bound(&live, "train", 3);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
    for index in 0..3 {
        assert_ne!(node_of(&live, &format!("train-{index}")), "one");
    }
    // Later pods of the gang get the same rack, or wait.
    live.admin.create(of_batch("train-3", "train")).unwrap();
    wait_until("the pod has the message that its rack is full", || {
        let pod = live.admin.get("pods", "default/train-3").unwrap();
        pod.to_string().contains("1 node(s) were outside rack=b")
    });
    node(&live.admin, "four", "1");
    label("four", "b");
    live.bound("default/train-3");
    assert_eq!(node_of(&live, "train-3"), "four");
}

#[test]
fn without_volcanos_definitions_the_default_queue_is_the_only_one() {
    let conf = conf(ACTIONS);
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.unknown_kinds = vec![VOLCANO_GROUPS, "queues", "workloads"]);
    let live = start_at(api, &[("one", "3")], &conf);
    live.admin.create(group("train", 2, 0)).unwrap();
    members(&live, "train", 2);
    all_bound(&live, "train", 2);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
    // Pods of the default scheduler are still scheduled by its profile.
    live.admin.create(group("other", 3, 0)).unwrap();
    live.admin
        .create(member("other-0", "other", "1m", 0))
        .unwrap();
    live.admin.create(pod("plain", "1m", 0)).unwrap();
    live.bound("default/plain");
    assert!(node_of(&live, "other-0").is_null());
}

#[test]
fn pods_with_scheduling_gates_are_left_alone_until_the_gates_are_removed() {
    let conf = conf(ACTIONS);
    let live = start_at(only_queues(), &[("one", "4")], &conf);
    live.admin.create(group("kueue", 2, 0)).unwrap();
    for index in 0..2 {
        let mut pod = of_batch(&format!("kueue-{index}"), "kueue");
        pod["spec"]["schedulingGates"] = json!([{ "name": "kueue.x-k8s.io/admission" }]);
        live.admin.create(pod).unwrap();
    }
    // Meanwhile another gang is created and deleted, which leads to many sessions.
    live.admin.create(group("train", 2, 0)).unwrap();
    members(&live, "train", 2);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
    let group = live.admin.get("podgroups", "default/kueue").unwrap();
    assert!(group["status"]["conditions"].is_null(), "{group}");
    let first = live.admin.get("pods", "default/kueue-0").unwrap();
    assert!(first["spec"]["nodeName"].is_null(), "{first}");
    assert!(first["status"]["conditions"].is_null(), "{first}");
    let about = |event: &Value| event.to_string().contains("kueue");
    assert!(!live.admin.list("events").iter().any(about));
    for index in 0..2 {
        let none = json!({ "spec": { "schedulingGates": null } });
        let name = format!("default/kueue-{index}");
        live.admin.merge("pods", &name, none).unwrap();
    }
    all_bound(&live, "kueue", 2);
}

#[test]
fn a_gang_that_was_bound_before_a_restart_is_reported_after_it() {
    let conf = conf(ACTIONS);
    let api = only_queues();
    let admin = api.actor("admin");
    admin.create(group("train", 2, 0)).unwrap();
    for index in 0..2 {
        let mut pod = of_batch(&format!("train-{index}"), "train");
        pod["spec"]["nodeName"] = json!("one");
        admin.create(pod).unwrap();
    }
    let live = start_at(api, &[("one", "2")], &conf);
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
}
