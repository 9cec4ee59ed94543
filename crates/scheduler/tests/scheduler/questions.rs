//! Questions of operators of kube-scheduler about a dump: why does this pod wait, and which change would help?

use crate::scheduler;
use evictd_test_objects::{Object, node, pod};
use evictd_testkit::program::{self, answer, stdout};
use serde_json::{Value, json};
use std::fs;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

/// The page and the JSON of `explain`.
fn explained(cluster: &[Value], pod: &Object) -> (String, Value) {
    let (cluster, pod) = (file(&json!(cluster)), file(&pod.json()));
    let ask = |arguments: &[&str]| {
        let mut program = scheduler();
        program.args(["explain", "--cluster"]).arg(cluster.path());
        program.arg("--pod").arg(pod.path()).args(arguments);
        program::run(program.env("COLUMNS", "400"), "")
    };
    (stdout(&ask(&[])), answer(&ask(&["-o", "json"])))
}

/// The page of `explain` contains each of these texts.
#[track_caller]
fn says(cluster: &[Object], pod: &Object, texts: &[&str]) {
    let cluster: Vec<Value> = cluster.iter().map(Object::json).collect();
    let (page, _) = explained(&cluster, pod);
    for text in texts {
        assert!(page.contains(text), "{text:?} is not in\n{page}");
    }
}

#[test]
fn a1_the_mistakes_of_the_cluster_and_of_the_pods_are_reported_at_once() {
    let wrong = |kind: &str| json!([{ "apiVersion": "v1", "kind": kind, "metadata": { "name": "x", "labels": 7 } }]);
    let (cluster, pods) = (file(&wrong("Node")), file(&wrong("Pod")));
    for (command, flag) in [
        ("explain", "--pod"),
        ("plan", "--pod"),
        ("simulate", "--pods"),
    ] {
        let mut program = scheduler();
        program.arg(command).arg("--cluster").arg(cluster.path());
        let output = program::run(program.arg(flag).arg(pods.path()), "");
        assert_eq!(output.status.code(), Some(2), "{command}");
        let lines = program::stderr(&output);
        for file in [&cluster, &pods] {
            let place = format!("{}:1:", file.path().display());
            assert!(lines.contains(&place), "{command}:\n{lines}");
        }
    }
}

fn machine(name: &str) -> Object {
    node(name)
        .uid(name)
        .cpu("4")
        .label("kubernetes.io/hostname", name)
}

fn owned(pod: Object) -> Object {
    let owner = json!([{ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "r", "controller": true }]);
    pod.merge(json!({ "metadata": { "ownerReferences": owner } }))
}

fn ending(pod: Object) -> Object {
    pod.merge(json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }))
}

#[test]
fn a6_a_label_that_no_node_has_is_named_with_the_nearest_one() {
    let cluster = [machine("n1").label("gpu", "no"), machine("n2")];
    let wants = |key: &str, value: &str| {
        pod("p")
            .priority(0)
            .spec(json!({ "nodeSelector": { key: value } }))
    };
    says(
        &cluster,
        &wants("gpuu", "yes"),
        &["no node has the label gpuu=yes of the pod's nodeSelector; the nearest label is gpu"],
    );
    says(
        &cluster,
        &wants("gpu", "yes"),
        &["gpu=yes of the pod's nodeSelector; its values are no"],
    );
    let (page, _) = explained(
        &[machine("n1").json()],
        &wants("kubernetes.io/arch", "arm64"),
    );
    assert!(
        page.contains("no kubernetes.io/arch in the pod's nodeSelector"),
        "{page}"
    );
    assert!(
        !page.contains("the label kubernetes.io/arch=arm64 on the node"),
        "{page}"
    );
}

#[test]
fn a6_a_pod_that_is_larger_than_every_node_is_told_so() {
    let large = pod("p").priority(0).cpu("64");
    says(
        &[machine("n1")],
        &large,
        &["no node is large enough: the pod asks for 64 of cpu, and the largest node has 4"],
    );
    let gpu = pod("p").priority(0).resource("nvidia.com/gpu", "1");
    says(
        &[machine("n1")],
        &gpu,
        &["no node offers nvidia.com/gpu, of which the pod asks for 1"],
    );
}

#[test]
fn a6_the_end_of_a_pod_that_terminates_is_suggested_for_what_it_holds() {
    let old = ending(owned(
        pod("old").cpu("3500m").runs_on(Some("n1")).priority(0),
    ));
    says(
        &[machine("n1"), old],
        &pod("p").priority(0).cpu("1"),
        &["n1: the end of default/old"],
    );
    let port = |name: &str| {
        pod(name).priority(0).spec(json!({ "containers": [{ "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80, "protocol": "TCP" }] }] }))
    };
    let old = ending(port("old").runs_on(Some("n1")));
    says(
        &[machine("n1"), old],
        &port("p"),
        &[
            "host port taken by default/old",
            "n1: the end of default/old",
        ],
    );
}

#[test]
fn a6_a_taint_of_a_nodes_state_is_not_to_be_tolerated() {
    let cluster = [machine("n1").taint("node.kubernetes.io/disk-pressure", "NoSchedule")];
    let (page, _) = explained(&[cluster[0].json()], &pod("p").priority(0));
    assert!(
        page.contains("n1: the node recovered from node.kubernetes.io/disk-pressure"),
        "{page}"
    );
    assert!(!page.contains("a toleration of"), "{page}");
}

#[test]
fn a6_peers_in_another_namespace_are_pointed_out() {
    let cache = pod("cache")
        .namespace("other")
        .label("app", "cache")
        .runs_on(Some("n1"));
    let near = json!({ "podAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "cache" } } }] } });
    let wants = pod("p").priority(0).spec(json!({ "affinity": near }));
    says(
        &[machine("n1"), cache],
        &wants,
        &[
            "no running pod in namespace default matches the required pod affinity",
            "other/cache would match",
        ],
    );
    says(
        &[machine("n1")],
        &wants,
        &["no running pod in namespace default matches"],
    );
}

#[test]
fn a6_a_node_name_in_the_spec_is_named() {
    let cluster = [machine("n1")];
    let wants = pod("p").priority(0).spec(json!({ "nodeName": "n9" }));
    says(
        &cluster,
        &wants,
        &["spec.nodeName is n9, which is no node of the cluster"],
    );
}

#[test]
fn a6_a_preemption_against_a_budget_says_so() {
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "b", "namespace": "default", "uid": "b" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "x" } } }, "status": { "disruptionsAllowed": 0 } });
    let low = owned(
        pod("x")
            .label("app", "x")
            .cpu("3")
            .priority(0)
            .runs_on(Some("n1")),
    );
    let (page, json) = explained(
        &[machine("n1").json(), low.json(), budget],
        &pod("vip").priority(9).cpu("2"),
    );
    assert!(
        page.contains("by preempting default/x against PodDisruptionBudget default/b."),
        "{page}"
    );
    assert_eq!(json["violatedBudgets"], json!(["default/b"]));
}

#[test]
fn a6_devices_that_are_given_back_say_where_the_pod_fits_then() {
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c", "namespace": "default", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "g", "exactly": { "deviceClassName": "gpu" } }] } },
        "status": { "allocation": { "devices": { "results": [{ "request": "g", "driver": "gpu.example.org", "pool": "w0", "device": "d0" }] },
            "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["w0"] }] }] } } } });
    let slice = |node: &str| {
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": node, "uid": format!("slice-{node}") },
            "spec": { "driver": "gpu.example.org", "nodeName": node, "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
                "devices": [{ "name": "d0" }] } })
    };
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" }, "spec": {} });
    let cordoned = machine("w0").spec(json!({ "unschedulable": true }));
    let cluster = [
        cordoned.json(),
        machine("w1").json(),
        claim,
        slice("w0"),
        slice("w1"),
        class,
    ];
    let wants = pod("p")
        .priority(0)
        .spec(json!({ "resourceClaims": [{ "name": "g", "resourceClaimName": "c" }] }));
    let (page, json) = explained(&cluster, &wants);
    assert!(
        page.contains("the devices of claim default/c are given back, then it fits on w1."),
        "{page}"
    );
    assert_eq!(json["feasibleThen"], json!(["w1"]));
}
