//! How many pods like one fit: with claims of their own, with shared ones, and the same by every command.

use crate::scheduler;
use evictd_testkit::program::{self, answer, stdout};
use serde_json::{Value, json};
use std::fs;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

fn run(command: &str, cluster: &[Value], pods: &Value, more: &[&str]) -> String {
    let (cluster, pods) = (file(&json!(cluster)), file(pods));
    let flag = match command {
        "simulate" => "--pods",
        _ => "--pod",
    };
    let mut program = scheduler();
    program.args([command, "--cluster"]).arg(cluster.path());
    program.arg(flag).arg(pods.path()).args(more);
    stdout(&program::run(program.env("COLUMNS", "300"), ""))
}

fn asked(command: &str, cluster: &[Value], pods: &Value) -> Value {
    serde_json::from_str(&run(command, cluster, pods, &["-o", "json"])).unwrap()
}

fn object(api: &str, kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name, "uid": format!("{kind}-{name}") } });
    let all = object.as_object_mut().unwrap();
    all.extend(rest.as_object().unwrap().clone());
    if !["Node", "StorageClass", "PersistentVolume", "CSINode"].contains(&kind)
        && !["DeviceClass", "ResourceSlice"].contains(&kind)
    {
        object["metadata"]["namespace"] = json!("default");
    }
    object
}

fn node(name: &str, cpu: &str) -> Value {
    let mut node = object(
        "v1",
        "Node",
        name,
        &json!({ "status": { "allocatable": { "cpu": cpu, "memory": "8Gi", "pods": "100" } } }),
    );
    node["metadata"]["labels"] = json!({ "kubernetes.io/hostname": name });
    node
}

fn workload(kind: &str, replicas: usize, spec: &Value, more: &Value) -> Value {
    let mut pod =
        json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] });
    let all = pod.as_object_mut().unwrap();
    all.extend(spec.as_object().unwrap().clone());
    let labels = json!({ "app": "web" });
    let mut workload = json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "name": "web" }, "spec": {
        "replicas": replicas, "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod } } });
    let all = workload["spec"].as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    workload
}

/// Two devices on each of two nodes.
fn devices() -> Vec<Value> {
    let slice = |node: &str| {
        let spec = json!({ "driver": "gpu.example.org", "nodeName": node, "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "d0" }, { "name": "d1" }] });
        object(
            "resource.k8s.io/v1",
            "ResourceSlice",
            node,
            &json!({ "spec": spec }),
        )
    };
    let class = json!({ "spec": { "extendedResourceName": "example.org/gpu" } });
    let request = json!({ "spec": { "devices": { "requests": [{ "name": "g", "exactly": { "deviceClassName": "gpu" } }] } } });
    vec![
        slice("n1"),
        slice("n2"),
        object("resource.k8s.io/v1", "DeviceClass", "gpu", &class),
        object("resource.k8s.io/v1", "ResourceClaim", "shared", &request),
        object(
            "resource.k8s.io/v1",
            "ResourceClaimTemplate",
            "each",
            &json!({ "spec": request }),
        ),
    ]
}

/// Three volumes that are there, and a class whose provisioner makes more.
fn storage() -> Vec<Value> {
    let delayed = |provisioner: &str| json!({ "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer" });
    let here = |node: &str| {
        json!({ "required": { "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": "kubernetes.io/hostname", "operator": "In", "values": [node] }] }] } })
    };
    let volume = |name: &str, node: &str, claim: &Value| {
        let phase = if claim.is_null() {
            "Available"
        } else {
            "Bound"
        };
        object(
            "v1",
            "PersistentVolume",
            name,
            &json!({ "spec": { "storageClassName": "local", "capacity": { "storage": "1Gi" },
            "accessModes": ["ReadWriteOnce"], "nodeAffinity": here(node), "claimRef": claim }, "status": { "phase": phase } }),
        )
    };
    let bound =
        json!({ "namespace": "default", "name": "bound", "uid": "PersistentVolumeClaim-bound" });
    vec![
        object(
            "storage.k8s.io/v1",
            "StorageClass",
            "local",
            &delayed("kubernetes.io/no-provisioner"),
        ),
        object(
            "storage.k8s.io/v1",
            "StorageClass",
            "csi",
            &delayed("csi.example.org"),
        ),
        volume("pv0", "n1", &Value::Null),
        volume("pv1", "n1", &Value::Null),
        volume("pv2", "n2", &Value::Null),
        volume("pv3", "n2", &bound),
        object(
            "v1",
            "PersistentVolumeClaim",
            "bound",
            &json!({ "spec": { "volumeName": "pv3", "storageClassName": "local",
            "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } }, "status": { "phase": "Bound" } }),
        ),
        object(
            "storage.k8s.io/v1",
            "CSINode",
            "n1",
            &json!({ "spec": { "drivers": [
            { "name": "csi.example.org", "nodeID": "n1", "allocatable": { "count": 2 } }] } }),
        ),
        object(
            "storage.k8s.io/v1",
            "CSINode",
            "n2",
            &json!({ "spec": { "drivers": [
            { "name": "csi.example.org", "nodeID": "n2", "allocatable": { "count": 1 } }] } }),
        ),
    ]
}

/// Workloads with the number of their pods that fit.
fn questions() -> Vec<(&'static str, usize, Value)> {
    let of = |name: &'static str, fits: usize, spec: Value| {
        (name, fits, workload("Deployment", 1, &spec, &json!({})))
    };
    let claim = |class: &str| json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": { "requests": { "storage": "1Gi" } } });
    let set = |class: &str| {
        let templates = json!([{ "metadata": { "name": "data" }, "spec": claim(class) }]);
        workload(
            "StatefulSet",
            1,
            &json!({}),
            &json!({ "volumeClaimTemplates": templates }),
        )
    };
    let gpu = json!([{ "name": "c", "resources": { "limits": { "example.org/gpu": "1" } } }]);
    let ephemeral =
        json!([{ "name": "s", "ephemeral": { "volumeClaimTemplate": { "spec": claim("csi") } } }]);
    vec![
        of("no claim", 12, json!({})),
        of(
            "a device each",
            4,
            json!({ "resourceClaims": [{ "name": "g", "resourceClaimTemplateName": "each" }] }),
        ),
        of(
            "one device for all",
            8,
            json!({ "resourceClaims": [{ "name": "g", "resourceClaimName": "shared" }] }),
        ),
        of("an extended resource", 4, json!({ "containers": gpu })),
        of(
            "one volume for all",
            4,
            json!({ "volumes": [{ "name": "v", "persistentVolumeClaim": { "claimName": "bound" } }] }),
        ),
        of(
            "an ephemeral volume each",
            3,
            json!({ "volumes": ephemeral }),
        ),
        ("a local volume each", 3, set("local")),
        ("an attached volume each", 3, set("csi")),
    ]
}

#[test]
fn a6_every_command_counts_the_same_replicas_with_their_claims() {
    let cluster = [vec![node("n1", "8"), node("n2", "4")], devices(), storage()].concat();
    for (name, fits, mut workload) in questions() {
        let explained = asked("explain", &cluster, &workload);
        assert_eq!(explained["replicas"], fits, "{name}: {explained}");
        let planned = asked("plan", &cluster, &workload);
        assert_eq!(planned["replicas"], fits, "{name}: {planned}");
        let one = asked("simulate", &cluster, &workload);
        let more = one["moreFit"].as_object().unwrap().values().next();
        assert_eq!(more, Some(&json!(fits - 1)), "{name}: {one}");
        workload["spec"]["replicas"] = json!(fits + 1);
        let all = asked("simulate", &cluster, &workload);
        let placed = all["placed"].as_object().unwrap().len();
        assert_eq!(placed, fits, "{name}: {all}");
    }
}

#[test]
fn a6_the_pages_say_how_many_replicas_fit() {
    let cluster = [vec![node("n1", "2")], devices()].concat();
    let (_, _, workload) = questions().remove(1);
    for command in ["explain", "plan"] {
        let page = run(command, &cluster, &workload, &[]);
        assert!(
            page.contains("2 pods like it fit now, this one included."),
            "{page}"
        );
    }
    let page = run("simulate", &cluster, &workload, &[]);
    assert!(page.contains("like default/web-0: 1"), "{page}");
}

/// The lines about obstacles, by `explain`, `plan` and `simulate`.
fn in_the_way(cluster: &[Value], pod: &Value) -> [Vec<String>; 3] {
    let lines = |list: &Value| {
        let list = list.as_array().into_iter().flatten();
        list.map(|line| line.as_str().unwrap().to_owned()).collect()
    };
    let name = pod["metadata"]["name"].as_str().unwrap();
    [
        lines(&asked("explain", cluster, pod)["blockers"]),
        lines(&asked("plan", cluster, pod)["blockers"]),
        lines(&asked("simulate", cluster, pod)["blockers"][&format!("default/{name}")]),
    ]
}

#[track_caller]
fn all_say(cluster: &[Value], pod: &Value, expected: &[&str]) {
    for lines in in_the_way(cluster, pod) {
        assert_eq!(lines, expected);
    }
}

fn pod(spec: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" }, "spec": spec })
}

#[test]
fn a6_a_pool_that_is_incomplete_or_invalid_is_named_by_every_command() {
    let claims = json!([{ "name": "g", "resourceClaimName": "shared" }]);
    let wants = pod(&json!({ "containers": [{ "name": "c" }], "resourceClaims": claims }));
    let mut cluster = [vec![node("n1", "4"), node("n2", "4")], devices()].concat();
    cluster.retain(|object| object["metadata"]["uid"] != "ResourceSlice-n2");
    let at = |cluster: &[Value]| {
        let mut slices = cluster.iter();
        slices.position(|object| object["kind"] == "ResourceSlice")
    };
    let slice = at(&cluster).unwrap();
    let mut old = cluster[slice].clone();
    old["metadata"] = json!({ "name": "old", "uid": "old" });
    cluster[slice]["spec"]["pool"] =
        json!({ "name": "n1", "generation": 2, "resourceSliceCount": 3 });
    cluster.push(old);
    all_say(
        &cluster,
        &wants,
        &[
            "pool n1 of driver gpu.example.org is incomplete: generation 2 has 1 of 3 slices (1 of older generations do not count); its devices are not allocated until its driver has published all of them",
        ],
    );
    cluster.pop();
    cluster[slice]["spec"]["pool"]["resourceSliceCount"] = json!(1);
    cluster[slice]["spec"]["devices"] = json!([{ "name": "d0" }, { "name": "d0" }]);
    all_say(
        &cluster,
        &wants,
        &[
            "pool n1 of driver gpu.example.org is invalid: two of its devices are named d0; its devices are not allocated until its driver corrects it",
        ],
    );
}

#[test]
fn a6_an_extended_resource_leads_to_its_device_class() {
    let gpus = |resource: &str, count: u64| {
        pod(
            &json!({ "containers": [{ "name": "c", "resources": { "limits": { resource: count } } }] }),
        )
    };
    let cluster = [vec![node("n1", "4"), node("n2", "4")], devices()].concat();
    let served = |resource: &str| {
        format!(
            "{resource} is served by devices of DeviceClass gpu where a node offers none itself"
        )
    };
    let implicit = "deviceclass.resource.kubernetes.io/gpu";
    for resource in ["example.org/gpu", implicit] {
        all_say(&cluster, &gpus(resource, 3), &[&served(resource)]);
    }
    all_say(
        &cluster,
        &gpus("example.org/tpu", 1),
        &[
            "no node offers example.org/tpu, of which the pod asks for 1, and no DeviceClass serves it by its spec.extendedResourceName; there is DeviceClass gpu",
        ],
    );
}

#[test]
fn a4_a_pod_of_the_question_replaces_that_of_the_cluster() {
    let held = json!({ "containers": [{ "name": "c" }], "schedulingGates": [{ "name": "quota" }] });
    let cluster = [node("n1", "4"), pod(&held)];
    let free = pod(&json!({ "containers": [{ "name": "c" }] }));
    assert_eq!(asked("explain", &cluster, &free)["chosen"], "n1");
    let simulated = asked("simulate", &cluster, &free);
    assert_eq!(simulated["placed"], json!({ "default/p": "n1" }));
    assert_eq!(simulated["gated"], json!([]));
    let cluster = [node("n1", "4"), free];
    let held = pod(&held);
    let reason = "waiting for scheduling gates: [quota]";
    assert_eq!(asked("explain", &cluster, &held)["notTried"], reason);
    assert_eq!(
        asked("simulate", &cluster, &held)["gated"],
        json!(["default/p"])
    );
}

#[test]
fn a1_groups_that_another_scheduler_reads_are_named() {
    let group = |api: &str| {
        let mut group = object(api, "PodGroup", "g", &json!({ "spec": { "minMember": 2 } }));
        group["metadata"]["uid"] = json!(api);
        group
    };
    let member = |labels: &Value, annotations: &Value| {
        let mut pod = pod(&json!({ "containers": [{ "name": "c" }] }));
        pod["metadata"]["labels"] = labels.clone();
        pod["metadata"]["annotations"] = annotations.clone();
        pod
    };
    let none = json!({});
    let questions = [
        (
            "scheduling.x-k8s.io/v1alpha1",
            member(&json!({ "scheduling.x-k8s.io/pod-group": "g" }), &none),
        ),
        (
            "scheduling.volcano.sh/v1beta1",
            member(&none, &json!({ "scheduling.k8s.io/group-name": "g" })),
        ),
    ];
    for (api, pod) in questions {
        let (cluster, pods) = (file(&json!([node("n1", "4"), group(api)])), file(&pod));
        for (command, flag) in [
            ("explain", "--pod"),
            ("plan", "--pod"),
            ("simulate", "--pods"),
        ] {
            let mut program = scheduler();
            program
                .args([command, "-o", "json", "--cluster"])
                .arg(cluster.path());
            let output = program::run(program.arg(flag).arg(pods.path()), "");
            answer(&output);
            let warnings = program::stderr(&output);
            for words in [
                "PodGroup default/g",
                "scheduled one by one",
                "Pod default/p of group g",
            ] {
                assert!(
                    warnings.contains(words),
                    "{command}: {words:?} is not in\n{warnings}"
                );
            }
        }
    }
}
