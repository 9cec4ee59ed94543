//! The rights that are packaged for the controllers are those that they use.

use crate::hyper_nodes::{self, until_racks};
use crate::live::{Live, job, queue, running, start_pods};
use crate::workflows::{cron_job, flow};
use evictd_testkit::rights::{granted, packaged, used};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Fault};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// Controllers of a server that cannot stream lists, so that lists are asked for.
fn live(arguments: &[&str]) -> Live {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.streaming_lists = false);
    Live::at(api, arguments)
}

/// What cannot be seen here, and why.
const UNSEEN: [&str; 6] = [
    // Not seen as a call: the API server checks these rights when an owner reference blocks the owner's deletion.
    "update jobs/finalizers batch.volcano.sh",
    "update cronjobs/finalizers batch.volcano.sh",
    "update jobflows/finalizers flow.volcano.sh",
    // A claim is seen by its watch before it is made a second time, but not always.
    "get persistentvolumeclaims ",
    // The server of the tests has no such kind.
    "get jobs batch",
    // Repeats of an event are written after a minute.
    "patch events ",
];

fn difference(rules: &Value, used: &BTreeSet<String>) -> Vec<String> {
    let granted = granted(rules);
    let unseen = |right: &&String| !UNSEEN.contains(&right.as_str());
    granted.difference(used).filter(unseen).cloned().collect()
}

#[test]
fn every_right_of_the_controllers_is_used_and_none_is_missing() {
    let conf = hyper_nodes::conf();
    let live = hyper_nodes::live(&conf);
    live.until_leader();
    live.admin.create(queue("team", "")).unwrap();
    live.admin.create(hyper_nodes::node("n1", "a")).unwrap();
    until_racks(&live, &["a: n1, 1"]);
    live.admin.create(hyper_nodes::node("n2", "a")).unwrap();
    until_racks(&live, &["a: n1 n2, 2"]);
    for node in ["n1", "n2"] {
        live.admin.delete("nodes", node, json!({})).unwrap();
    }
    // Each is made, but nothing is heard of it: it is looked at when it is made again.
    for what in ["services", "configmaps", "secrets", "networkpolicies"] {
        live.api
            .fault(Fault::cut_after(0).on("create", what).times(1));
    }
    running(&live, "train", |job| {
        job["spec"]["plugins"] = json!({"svc": [], "ssh": []});
        job["spec"]["volumes"] = json!([{"mountPath": "/data", "volumeClaim": {"resources": {}}}]);
    });
    let grown = json!({"spec": {"tasks": [{
        "name": "w", "replicas": 3, "minAvailable": 3, "template": live.job("train")["spec"]["tasks"][0]["template"],
    }], "minAvailable": 3}});
    live.admin.merge("jobs", "default/train", grown).unwrap();
    wait_until("there is a third pod", || live.pods("train").len() == 3);
    // A deletion fails: the pod is read.
    live.api
        .fault(Fault::answer(500).on("delete", "pods").times(1));
    live.command("train", "AbortJob");
    live.until_phase("train", "Aborted");

    live.admin
        .create(job("short", |job| {
            job["spec"]["ttlSecondsAfterFinished"] = json!(0);
        }))
        .unwrap();
    live.until_phase("short", "Pending");
    start_pods(&live, "short");
    for pod in live.pods("short") {
        live.set_phase(&pod, "Succeeded");
    }
    wait_until("it is deleted", || live.job("short").is_null());

    live.admin.create(cron_job("tick", |_| {})).unwrap();
    let flow = flow(&live, "f", json!([{"name": "a"}]), "retain");
    live.admin.create(flow).unwrap();

    let rules = packaged("batch/rights.yaml");
    let mut unused = Vec::new();
    wait_until("every right is used", || {
        unused = difference(&rules, &used(&live.api.log(), "controllers"));
        unused.is_empty()
    });
    assert_eq!(unused, [""; 0]);
}

#[test]
fn every_additional_right_of_form_volcano_is_used() {
    let live = live(&["--form", "volcano"]);
    live.until_leader();
    for (version, kind) in [
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("batch/v1", "Job"),
    ] {
        let name = kind.to_lowercase();
        let owner = json!({
            "apiVersion": version, "kind": kind,
            "metadata": {"name": name, "namespace": "default"}, "spec": {"replicas": 1},
        });
        // Those that the server does not have are asked for all the same.
        let uid = match live.admin.create(owner) {
            Ok(made) => made["metadata"]["uid"].clone(),
            Err(_) => json!("u"),
        };
        let reference = json!({"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": true});
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "ownerReferences": [reference]},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "none"}]},
        });
        live.admin.create(pod).unwrap();
    }
    let rules = packaged("components/volcano-form/rights.yaml");
    let mut unused = Vec::new();
    wait_until("every right is used", || {
        unused = difference(&rules, &used(&live.api.log(), "controllers"));
        unused.is_empty()
    });
    assert_eq!(unused, [""; 0]);
}
