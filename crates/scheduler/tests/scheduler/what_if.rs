//! `simulate`: nodes that are added, and running pods that are moved.

use crate::scheduler;
use evictd_test_objects::{Object, node, pod};
use evictd_testkit::program::{self, answer, stderr, stdout};
use serde_json::{Value, json};
use std::fs;
use std::process::Output;
use tempfile::NamedTempFile;

const ZONE: &str = "topology.kubernetes.io/zone";

fn file(objects: &[Object]) -> NamedTempFile {
    let items: Vec<Value> = objects.iter().map(Object::json).collect();
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), json!(items).to_string()).unwrap();
    file
}

fn simulate(cluster: &[Object], arguments: &[&str]) -> Output {
    let cluster = file(cluster);
    let mut program = scheduler();
    program.arg("simulate").arg("--cluster").arg(cluster.path());
    program::run(program.args(arguments), "")
}

fn in_zone(name: &str, zone: &str) -> Object {
    let node = node(name).label(ZONE, zone).uid(name).cpu("4");
    node.label("kubernetes.io/hostname", name)
}

fn owned(pod: Object, kind: &str, name: &str) -> Object {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": true }]);
    pod.merge(json!({ "metadata": { "ownerReferences": owner } }))
}

fn replica(number: usize, on: &str) -> Object {
    let spread = json!([{ "maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": { "matchLabels": { "app": "web" } } }]);
    let pod = pod(&format!("web-{number}"))
        .label("app", "web")
        .runs_on(Some(on));
    let pod = pod.spec(json!({ "topologySpreadConstraints": spread, "priority": 0 }));
    owned(pod.cpu("1"), "ReplicaSet", "web")
}

#[test]
fn a6_added_nodes_are_like_the_named_one_and_run_its_daemons() {
    let mut old = in_zone("n1", "a").taint("node.kubernetes.io/unschedulable", "NoSchedule");
    old = old.spec(json!({ "unschedulable": true }));
    let daemon = owned(
        pod("agent-n1").cpu("2").runs_on(Some("n1")),
        "DaemonSet",
        "agent",
    );
    let waiting = (0..3).map(|number| {
        pod(&format!("big-{number}"))
            .cpu("2")
            .spec(json!({ "priority": 0 }))
    });
    let cluster: Vec<Object> = [old, daemon].into_iter().chain(waiting).collect();
    let output = simulate(
        &cluster,
        &["--add-nodes", "2", "--like", "n1", "-o", "json"],
    );
    let answer = answer(&output);
    assert_eq!(answer["addedNodes"], json!(["n1-new-1", "n1-new-2"]));
    // Of the 4 cores of each new node the daemon takes 2, and the cordoned node takes no pod.
    let placed = answer["placed"].as_object().unwrap();
    assert_eq!(placed.len(), 2, "{answer}");
    assert!(placed.values().all(|node| node != "n1"), "{answer}");
    assert_eq!(answer["unschedulable"].as_object().unwrap().len(), 1);
    assert!(
        stderr(&output).contains("default/agent-n1"),
        "{}",
        stderr(&output)
    );
    let page = simulate(&cluster, &["--add-nodes", "4", "--like", "n1"]);
    let page = stdout(&page);
    assert!(
        page.contains("No pod was scheduled onto n1-new-4."),
        "{page}"
    );
    let unknown = simulate(&cluster, &["--add-nodes", "1", "--like", "n7"]);
    assert_eq!(unknown.status.code(), Some(2));
    assert!(stderr(&unknown).contains("--like n7: there is no such node"));
}

#[test]
fn a6_added_nodes_bring_their_devices_and_take_pods_of_daemon_sets() {
    let gpu = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s-n1", "uid": "s" },
        "spec": { "driver": "gpu.example.org", "nodeName": "n1", "pool": { "name": "n1", "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "d0" }] } });
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "c" }, "spec": {} });
    let template = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": { "name": "one", "namespace": "default", "uid": "t" },
        "spec": { "spec": { "devices": { "requests": [{ "name": "g", "exactly": { "deviceClassName": "gpu" } }] } } } });
    let cluster = json!([in_zone("n1", "a").json(), gpu, class, template]);
    let wants = |number: usize| {
        let claims = json!([{ "name": "g", "resourceClaimTemplateName": "one" }]);
        json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": format!("gpu-{number}") },
            "spec": { "containers": [{ "name": "c" }], "resourceClaims": claims } })
    };
    let daemons = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "d" },
        "spec": { "template": { "metadata": { "labels": { "d": "d" } }, "spec": { "containers": [{ "name": "c" }] } } } });
    let written = |value: &Value| {
        let file = NamedTempFile::new().unwrap();
        fs::write(file.path(), value.to_string()).unwrap();
        file
    };
    let (cluster, pods) = (
        written(&cluster),
        written(&json!([wants(0), wants(1), daemons])),
    );
    let mut program = scheduler();
    program.args([
        "simulate",
        "--add-nodes",
        "1",
        "--like",
        "n1",
        "-o",
        "json",
        "--cluster",
    ]);
    program.arg(cluster.path()).arg("--pods").arg(pods.path());
    let placed = answer(&program::run(&mut program, ""))["placed"].clone();
    assert_eq!(placed.as_object().unwrap().len(), 4, "{placed}");
    assert_eq!(placed["default/d-n1-new-1"], "n1-new-1");
}

#[test]
fn a6_a_rebalance_names_its_moves_and_the_pods_that_stay() {
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "keep", "namespace": "default", "uid": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "held": "yes" } } }, "status": { "disruptionsAllowed": 0 } });
    let nodes = [in_zone("a1", "a"), in_zone("b1", "b"), in_zone("c1", "c")];
    let pods = (0..4).map(|number| replica(number, "a1"));
    let cluster: Vec<Object> = nodes.into_iter().chain(pods).collect();
    let answer = answer(&simulate(&cluster, &["--rebalance", "-o", "json"]));
    assert_eq!(answer["moves"].as_array().unwrap().len(), 2, "{answer}");
    assert_eq!(answer["atLeast"], 2);
    assert_eq!(
        answer["spread"][0]["before"],
        json!({ "a": 4, "b": 0, "c": 0 })
    );
    assert_eq!(
        answer["spread"][0]["after"],
        json!({ "a": 2, "b": 1, "c": 1 })
    );
    let page = stdout(&simulate(&cluster, &["--rebalance"]));
    assert!(
        page.contains("2 moves repair the spread; fewer do not suffice."),
        "{page}"
    );

    let held = |number: usize| replica(number, "a1").label("held", "yes").json();
    let items = json!([
        in_zone("a1", "a").json(),
        in_zone("b1", "b").json(),
        held(0),
        held(1),
        budget
    ]);
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), items.to_string()).unwrap();
    let mut program = scheduler();
    program
        .args(["simulate", "--rebalance", "--cluster"])
        .arg(file.path());
    let page = stdout(&program::run(&mut program, ""));
    assert!(
        page.contains("PodDisruptionBudget default/keep does not allow its eviction now"),
        "{page}"
    );
}

#[test]
fn a4_a_pod_that_waits_for_its_claim_is_not_tried_by_any_command() {
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default", "uid": "p" },
        "spec": { "containers": [{ "name": "c" }], "resourceClaims": [{ "name": "g", "resourceClaimName": "absent" }] } });
    let (cluster, pods) = (file(&[in_zone("n1", "a")]), NamedTempFile::new().unwrap());
    fs::write(pods.path(), pod.to_string()).unwrap();
    let asked = |command: &str, flag: &str| {
        let mut program = scheduler();
        program
            .args([command, "-o", "json", "--cluster"])
            .arg(cluster.path());
        answer(&program::run(program.arg(flag).arg(pods.path()), ""))
    };
    let explained = asked("explain", "--pod");
    assert_eq!(
        explained["notTried"],
        asked("plan", "--pod")["ineligibleReason"]
    );
    assert!(
        explained["notTried"].as_str().unwrap().contains("absent"),
        "{explained}"
    );
    assert_eq!(explained["feasible"], json!([]));
    assert_eq!(asked("simulate", "--pods")["gated"], json!(["default/p"]));
}

#[test]
fn a6_the_pod_that_has_the_room_by_its_nomination_is_named() {
    let nominated = pod("vip").priority(10).cpu("3");
    let nominated = nominated.merge(json!({ "status": { "phase": "Pending", "nominatedNodeName": "n1",
        "conditions": [{ "type": "PodScheduled", "status": "False", "reason": "Unschedulable" }] } }));
    let (cluster, wanted) = (
        file(&[in_zone("n1", "a"), nominated]),
        NamedTempFile::new().unwrap(),
    );
    fs::write(
        wanted.path(),
        pod("p").priority(5).cpu("2").json().to_string(),
    )
    .unwrap();
    let mut program = scheduler();
    program
        .args(["explain", "-o", "json", "--cluster"])
        .arg(cluster.path());
    let answer = answer(&program::run(program.arg("--pod").arg(wanted.path()), ""));
    let obstacle = answer["obstacles"]["n1"].as_str().unwrap();
    assert!(obstacle.contains("default/vip (priority 10)"), "{answer}");
}

#[test]
fn a5_a_cluster_in_which_no_pod_waits_is_told_apart_from_one_that_was_scheduled() {
    let set = json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": { "name": "db", "namespace": "shop" },
        "spec": { "replicas": 3, "selector": { "matchLabels": { "app": "db" } } } });
    let cluster = file(&[in_zone("n1", "a")]);
    let mut program = scheduler();
    program.arg("simulate").arg("--cluster").arg(cluster.path());
    let output = program::run(program.args(["--cluster", "-"]), set.to_string());
    let page = stdout(&output);
    assert!(page.starts_with("There is no pod to schedule."), "{page}");
    assert!(page.contains("--pods"), "{page}");
}
