//! What stays of evicted pods.

use crate::cluster::Cluster;
use crate::daemon::Daemon;
use evictd_node::History;
use serde_json::{Value, json};

const MARK: &str = "evictd.dev/evicted";

fn daemon(cluster: &Cluster, lines: &str) -> Daemon {
    let lines = format!("{}\n{lines}", cluster.lines());
    Daemon::start(&cluster.node, &[("memory.available", "64Mi")], &lines)
}

fn owned_by(kind: &str, owner: &str) -> Value {
    json!([{ "apiVersion": "apps/v1", "kind": kind, "name": owner, "uid": owner, "controller": true }])
}

/// A pod that somebody evicted on this day of November 2026; with a mark it was evictd, whose history tells it.
fn left(cluster: &Cluster, name: &str, owners: &Value, mark: Option<u32>) {
    let uid = marked(cluster, name, owners, mark);
    if mark.is_some() {
        let mut history = History::open(&cluster.node.path("state"), 1 << 20).unwrap();
        let record = json!({
            "id": uid, "uid": uid, "kind": "hard", "time": "2026-11-01T12:00:00Z", "dryRun": false,
            "outcome": { "processes": 1, "method": "cgroup-kill" },
        });
        history.append(&record).unwrap();
    }
}

/// The same without the history: whoever may annotate the pod may leave a mark.
fn marked(cluster: &Cluster, name: &str, owners: &Value, mark: Option<u32>) -> String {
    let marks =
        mark.map(|day| json!({ "time": format!("2026-11-{day:02}T12:00:00Z") }).to_string());
    let metadata = json!({ "ownerReferences": owners, "annotations": { MARK: marks } });
    let uid = cluster.create(name, &metadata);
    let status = json!({ "status": { "phase": "Failed", "reason": "Evicted" } });
    let at = format!("shop/{name}");
    cluster.admin.merge("pods/status", &at, status).unwrap();
    uid
}

fn names(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.admin.list("pods").into_iter();
    pods.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn an_owner_keeps_its_newest_and_others_evicted_pods_stay() {
    let Some(cluster) = Cluster::new("an_owner_keeps_its_newest") else {
        return;
    };
    let web = owned_by("ReplicaSet", "web");
    for (name, day) in [("web-a", 1), ("web-b", 3), ("web-c", 2)] {
        left(&cluster, name, &web, Some(day));
    }
    left(&cluster, "web-kubelets", &web, None);
    marked(&cluster, "web-forged", &web, Some(1));
    let runs = json!({ "ownerReferences": web, "annotations": { MARK: "{\"time\":\"2026-11-01T12:00:00Z\"}" } });
    cluster.create("web-runs", &runs);
    left(&cluster, "job-a", &owned_by("Job", "job"), Some(1));
    left(&cluster, "job-b", &owned_by("Job", "job"), Some(2));
    left(&cluster, "lonely", &Value::Null, Some(1));
    let all = names(&cluster);

    let rehearsal = daemon(&cluster, "evictedPods: {keepPerOwner: 1}\ndryRun: true");
    rehearsal.eventually("it says what it would do", |daemon| {
        daemon.said("would delete the evicted pod shop/web-a: its owner has 1 newer ones") == 1
            && daemon.said("would delete the evicted pod shop/web-c") == 1
    });
    rehearsal.some_turns_pass();
    assert_eq!(rehearsal.said("would delete"), 2);
    assert_eq!(names(&cluster), all);
    drop(rehearsal);

    let off = daemon(&cluster, "");
    off.seconds_pass(1);
    assert_eq!(names(&cluster), all);
    drop(off);

    let daemon = daemon(&cluster, "evictedPods: {keepPerOwner: 1}");
    let rest = [
        "job-a",
        "job-b",
        "lonely",
        "web-b",
        "web-forged",
        "web-kubelets",
        "web-runs",
    ];
    daemon.eventually("they are gone", |_| names(&cluster) == rest);
    // Between two deletions there is a pause.
    daemon.seconds_pass(1);
    assert_eq!(names(&cluster), rest);
    assert_eq!(daemon.said("deleted the evicted pod"), 2);
}

#[test]
fn a_pod_that_evictd_evicted_goes_when_it_is_old() {
    let Some(cluster) = Cluster::new("a_pod_that_evictd_evicted_goes_when_it_is_old") else {
        return;
    };
    let hog = cluster.admin.create(json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hog", "namespace": "shop" },
        "spec": {
            "nodeName": "test", "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": "none" }],
        },
        "status": { "phase": "Running" },
    }));
    let uid = hog.unwrap()["metadata"]["uid"].as_str().unwrap().to_owned();
    let _hog = cluster.run(&uid, "--hold 140Mi");
    let daemon = daemon(&cluster, "evictedPods: {ttl: 1s}");
    daemon.evicted(1);
    assert_eq!(names(&cluster), ["hog"]);
    daemon.eventually("it is gone", |daemon| {
        let why = "deleted the evicted pod shop/hog: it was evicted 1s ago or earlier";
        names(&cluster).is_empty() && daemon.said(why) == 1
    });
}
