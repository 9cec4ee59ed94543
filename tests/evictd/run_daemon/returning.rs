//! An owner whose pods come back to the node and are evicted again.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::node::Worker;
use evictd_testkit::Controllers;
use serde_json::{Value, json};

const TAINT: &str = "evictd.dev/memory-pressure";

/// Keys of the Node's taints of ours, and whether its condition holds.
fn machine(cluster: &Cluster) -> (Vec<String>, bool) {
    let node = cluster.admin.get("nodes", "test").unwrap();
    let all = |list: &Value| list.as_array().cloned().unwrap_or_default();
    let keys = all(&node["spec"]["taints"]).into_iter();
    let keys = keys.filter_map(|taint| taint["key"].as_str().map(str::to_owned));
    let raised = |one: &Value| one["type"] == "EvictdMemoryPressure" && one["status"] == "True";
    let conditions = all(&node["status"]["conditions"]);
    (keys.collect(), conditions.iter().any(raised))
}

/// The owner's pod that was scheduled here, once it is.
fn scheduled(cluster: &Cluster, daemon: &Daemon) -> Value {
    let mut found = Value::Null;
    daemon.eventually("a pod of it is scheduled here", |_| {
        let pods = cluster.admin.list("pods").into_iter();
        let mut here = pods
            .filter(|pod| pod["spec"]["nodeName"] == "test" && pod["status"]["phase"] != "Failed");
        found = here.next().unwrap_or_default();
        !found.is_null()
    });
    found
}

/// Lets the pod that was scheduled here be the hog it is, and waits until it is evicted.
fn come_back(cluster: &Cluster, daemon: &Daemon, times: usize) -> Worker {
    let pod = scheduled(cluster, daemon);
    let hog = cluster.run(pod["metadata"]["uid"].as_str().unwrap(), "--hold 140Mi");
    let decision = daemon.evicted(times).pop().unwrap();
    assert_eq!(decision["owner"]["name"], "web");
    assert_eq!(decision["owner"]["evictions"], times);
    hog
}

/// What the status tells of the owner once that many of its pods were evicted.
fn returned(daemon: &Daemon, evictions: u32) -> Value {
    let mut shown = Value::Null;
    daemon.eventually("the status counts them", |daemon| {
        shown = daemon.status()["returningOwners"][0].clone();
        shown["evictions"] == evictions
    });
    shown
}

fn start(cluster: &Cluster) -> Daemon {
    let lines = format!("{}\nevictionPressureTransitionPeriod: 2s", cluster.lines());
    Daemon::start(&cluster.node, &[("memory.available", "64Mi")], &lines)
}

#[test]
fn the_condition_is_held_then_the_taint_an_event_counts_and_a_restart_forgets_nothing() {
    let Some(cluster) = Cluster::new("the_condition_is_held_then_the_taint") else {
        return;
    };
    let controllers = Controllers::start(&cluster.api).unwrap();
    let container = json!({ "name": "main", "image": "none" });
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "name": "web", "namespace": "shop" },
        "spec": {
            "replicas": 1, "selector": { "matchLabels": { "app": "web" } },
            "template": { "metadata": { "labels": { "app": "web" } }, "spec": { "containers": [container] } },
        },
    });
    cluster.admin.create(set).unwrap();
    let tainted = vec![TAINT.to_owned()];

    let daemon = start(&cluster);
    let _first = come_back(&cluster, &daemon, 1);
    assert_eq!(daemon.status()["returningOwners"], json!([]));

    let _second = come_back(&cluster, &daemon, 2);
    let shown = returned(&daemon, 2);
    assert_eq!(shown["owner"], "ReplicaSet shop/web");
    assert_eq!(shown["condition"], "MemoryPressure");
    assert_eq!(shown["keepsAway"], false);
    daemon.eventually("the condition is held without its taint", |_| {
        machine(&cluster) == (Vec::new(), true)
    });

    let _third = come_back(&cluster, &daemon, 3);
    let shown = returned(&daemon, 3);
    assert_eq!(shown["keepsAway"], true);
    let events = || -> Vec<Value> {
        let all = cluster.admin.list("events").into_iter();
        all.filter(|event| event["reason"] == "EvictedAgain")
            .collect()
    };
    daemon.eventually("both returns are told", |_| events().len() == 2);
    let event = events().pop().unwrap();
    assert_eq!(event["type"], "Warning");
    assert_eq!(event["involvedObject"]["name"], "test");
    assert_eq!(event["related"]["name"], "web");
    let counted = "Pods of ReplicaSet shop/web come back to node test and were evicted 3 times: MemoryPressure holds and \
                   keeps new pods away until ";
    assert!(
        event["message"].as_str().unwrap().starts_with(counted),
        "{event:#}"
    );
    assert_eq!(daemon.said("were evicted 3 times"), 1);

    // Killed, as it is by the test's end.
    drop(daemon);
    let again = start(&cluster);
    assert_eq!(returned(&again, 3), shown);
    again.some_turns_pass();
    assert_eq!(machine(&cluster), (tainted, true));
    again.eventually("it is over", |again| {
        machine(&cluster).0.is_empty() && again.status()["returningOwners"] == json!([])
    });
    drop(controllers);
}
