//! `plan` for a pod of a group: the group preempts as a whole, as in `simulate`.

use crate::live_groups::{group, member};
use crate::scheduler;
use evictd_testkit::program::{self, answer};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

fn list(objects: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "List", "items": objects })
}

fn node(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
        "status": { "allocatable": { "cpu": "2", "memory": "16Gi", "pods": "20" } } })
}

/// The pod of a group that is to be placed, with a claim of its own if `claim` is given.
fn waiting(name: &str, cpu: &str, claim: Option<&str>) -> Value {
    let mut pod = member(name, "train", cpu, 100);
    pod["apiVersion"] = json!("v1");
    pod["kind"] = json!("Pod");
    pod["metadata"]["uid"] = json!(format!("uid-of-{name}"));
    if let Some(claim) = claim {
        pod["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": claim }]);
    }
    pod
}

/// A pod without a group on a node.
fn running(name: &str, node: &str, (cpu, priority): (&str, i32), claim: Option<&str>) -> Value {
    let mut pod = waiting(name, cpu, claim);
    let spec = pod["spec"].as_object_mut().unwrap();
    spec.remove("schedulingGroup");
    spec.insert("nodeName".to_owned(), json!(node));
    spec.insert("priority".to_owned(), json!(priority));
    pod["status"] = json!({ "phase": "Running" });
    pod
}

/// A claim of one device, which the pod of the same name has if a node is given.
fn claim(name: &str, node: Option<&str>) -> Value {
    let mut claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "default", "uid": format!("claim-{name}") },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu" } }] } } });
    if let Some(node) = node {
        claim["status"] = json!({
            "reservedFor": [{ "resource": "pods", "name": name, "uid": format!("uid-of-{name}") }],
            "allocation": { "devices": { "results": [
                { "request": "r", "driver": "gpu.example.com", "pool": node, "device": "card" }] } },
        });
    }
    claim
}

fn devices(nodes: &[&str]) -> Vec<Value> {
    let slice = |node: &&str| {
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice",
            "metadata": { "name": node, "uid": format!("slice-{node}") },
            "spec": { "driver": "gpu.example.com", "nodeName": node, "devices": [{ "name": "card" }],
                "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } } })
    };
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass",
        "metadata": { "name": "gpu", "uid": "class-gpu" }, "spec": {} });
    nodes.iter().map(slice).chain([class]).collect()
}

/// The answer of `plan` for the first pod.
fn plan(cluster: &[Value], pods: &[Value], flags: &[&str]) -> Value {
    let cluster = file(&list(&[cluster, pods].concat()));
    let mut program = scheduler();
    program.args(["plan", "-o", "json", "--pod", "default/train-0"]);
    program.args(flags).arg("--cluster").arg(cluster.path());
    answer(&program::run(&mut program, ""))
}

fn names(list: &Value) -> BTreeSet<String> {
    let list = list.as_array().into_iter().flatten();
    list.map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The victims of the first attempts of all pods in `simulate`.
fn simulated(cluster: &[Value], pods: &[Value], frees_devices: bool) -> BTreeSet<String> {
    let (cluster, pods) = (file(&list(cluster)), file(&list(pods)));
    let config = file(&json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "pluginConfig": [{ "name": "DefaultPreemption",
            "args": { "freesDevices": frees_devices } }] }],
    }));
    let mut program = scheduler();
    program.args(["simulate", "-o", "json", "--cluster"]);
    program.arg(cluster.path()).arg("--pods").arg(pods.path());
    program.arg("--config").arg(config.path());
    let answer = answer(&program::run(&mut program, ""));
    let attempts = answer["attempts"].as_array().into_iter().flatten();
    attempts
        .flat_map(|attempt| names(&attempt["victims"]))
        .collect()
}

#[test]
fn s4_039_plan_shows_the_victims_of_the_whole_group() {
    let cluster = [
        node("one"),
        node("two"),
        running("low-1", "one", ("2", 1), None),
        running("low-2", "two", ("2", 1), None),
        running("spared", "two", ("0", 1), None),
        group("train", 2, 100),
    ];
    let pods = [waiting("train-0", "2", None), waiting("train-1", "2", None)];
    let found = plan(&cluster, &pods, &[]);
    assert_eq!(found["eligible"], true, "{found}");
    let victims = names(&found["chosen"]["victims"]);
    assert_eq!(
        victims,
        BTreeSet::from(["default/low-1", "default/low-2"].map(str::to_owned))
    );
    assert_eq!(victims, simulated(&cluster, &pods, false));
    let actions = found["actions"].as_array().unwrap();
    let of = |kind: &str| actions.iter().filter(|action| action["do"] == kind).count();
    assert_eq!((of("delete"), of("nominate")), (2, 2), "{found}");
    // A group that fits with one of them on each node preempts nothing.
    let free = [node("one"), node("two"), group("train", 2, 100)];
    let found = plan(&free, &pods, &[]);
    assert_eq!(found["fitsWithoutPreemption"], true, "{found}");
    assert_eq!(found["chosen"], Value::Null);
}

#[test]
fn a_group_frees_devices_in_plan_as_in_simulate() {
    for (priority, expected) in [(1, 2), (500, 0)] {
        let cluster: Vec<Value> = [node("one"), node("two"), group("train", 2, 100)]
            .into_iter()
            .chain(devices(&["one", "two"]))
            .chain(["one", "two"].into_iter().flat_map(|node| {
                let holder = running(node, node, ("0", priority), Some(node));
                [holder, claim(node, Some(node))]
            }))
            .chain([claim("new-0", None), claim("new-1", None)])
            .collect();
        let pods = ["train-0", "train-1"].map(|name| {
            let claim = name.replace("train", "new");
            waiting(name, "1", Some(&claim))
        });
        let found = plan(&cluster, &pods, &["--free-devices"]);
        let victims = names(&found["chosen"]["victims"]);
        assert_eq!(victims.len(), expected, "{found}");
        assert_eq!(victims, simulated(&cluster, &pods, true));
        // Without the flag nothing helps, as at kube-scheduler.
        let found = plan(&cluster, &pods, &[]);
        assert_eq!(found["eligible"], false, "{found}");
        assert!(!found["ineligibleReason"].as_str().unwrap().is_empty());
        assert_eq!(simulated(&cluster, &pods, false), BTreeSet::new());
    }
}
