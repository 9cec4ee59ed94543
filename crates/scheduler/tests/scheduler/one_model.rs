//! `explain` and `simulate` read the same objects, as an API server would have stored them.

use crate::scheduler;
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};
use std::fs;
use tempfile::NamedTempFile;

fn file(value: &Value) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

pub(crate) fn node(name: &str, labels: &Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "uid": name, "labels": labels },
        "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } } })
}

pub(crate) fn pod(name: &str, spec: &Value) -> Value {
    let mut pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "1" } } }] } });
    let all = pod["spec"].as_object_mut().unwrap();
    all.extend(spec.as_object().unwrap().clone());
    pod
}

/// The answer of a command about these objects, and its warnings.
pub(crate) fn asked(command: &str, cluster: &[Value], pods: &Value) -> (Value, String) {
    asked_with(command, &[], cluster, pods)
}

pub(crate) fn asked_with(
    command: &str,
    flags: &[&str],
    cluster: &[Value],
    pods: &Value,
) -> (Value, String) {
    let (cluster, pods) = (file(&json!(cluster)), file(pods));
    let flag = if command == "simulate" {
        "--pods"
    } else {
        "--pod"
    };
    let mut program = scheduler();
    program.args([command, "-o", "json"]).args(flags);
    program
        .arg("--cluster")
        .arg(cluster.path())
        .arg(flag)
        .arg(pods.path());
    let output = program::run(&mut program, "");
    (answer(&output), stderr(&output))
}

fn simulated(cluster: &[Value], pods: &Value) -> (Value, String) {
    asked("simulate", cluster, pods)
}

/// The nodes that fit by `explain`; those by `simulate` may be one of them.
#[track_caller]
fn both_place(cluster: &[Value], pod: &Value, nodes: &Value) {
    let (explained, _) = asked("explain", cluster, pod);
    assert_eq!(explained["feasible"], *nodes);
    let (simulated, _) = simulated(cluster, pod);
    let placed = simulated["placed"].as_object().unwrap().values().next();
    let chosen = nodes.as_array().unwrap();
    assert_eq!(placed.is_some(), !chosen.is_empty(), "{simulated}");
    assert!(
        placed.is_none_or(|node| chosen.contains(node)),
        "{simulated}"
    );
}

#[test]
fn what_admission_adds_decides_in_both() {
    let kata = json!({ "kind": "RuntimeClass", "metadata": { "name": "kata" }, "overhead": { "podFixed": { "cpu": "2" } },
        "scheduling": { "nodeSelector": { "kata": "yes" } } });
    let limits = json!({ "kind": "LimitRange", "metadata": { "name": "lr" }, "spec": { "limits": [
        { "type": "Container", "defaultRequest": { "cpu": "5" } }] } });
    let cluster = [
        node("n1", &json!({})),
        node("n2", &json!({ "kata": "yes" })),
        kata,
    ];
    both_place(
        &cluster,
        &pod("web", &json!({ "runtimeClassName": "kata" })),
        &json!(["n2"]),
    );
    let large = json!({ "runtimeClassName": "kata", "containers": [{ "name": "c", "resources": { "limits": { "cpu": "3" } } }] });
    both_place(&cluster, &pod("web", &large), &json!([]));
    let limited = [node("n1", &json!({})), limits];
    both_place(
        &limited,
        &pod("web", &json!({ "containers": [{ "name": "c" }] })),
        &json!([]),
    );
    both_place(&limited, &pod("web", &json!({})), &json!(["n1"]));
}

#[test]
fn a_class_that_forbids_preemption_does_so_in_a_simulation() {
    let never = json!({ "kind": "PriorityClass", "metadata": { "name": "vip" }, "value": 1000, "preemptionPolicy": "Never" });
    let hog = json!({ "nodeName": "n1", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "4" } } }] });
    let cluster = [node("n1", &json!({})), pod("hog", &hog), never];
    let (answer, _) = simulated(
        &cluster,
        &pod("web", &json!({ "priorityClassName": "vip" })),
    );
    assert_eq!(answer["placed"], json!({}));
    let message = answer["unschedulable"]["default/web"].as_str().unwrap();
    assert!(
        message.contains("not eligible due to preemptionPolicy=Never"),
        "{message}"
    );
}

#[test]
fn members_of_a_gang_share_the_claim_that_is_in_the_dump() {
    let slice = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s", "uid": "s" }, "spec": {
        "driver": "gpu.example", "nodeName": "n2", "pool": { "name": "n2", "generation": 1, "resourceSliceCount": 1 },
        "devices": [{ "name": "gpu-0" }] } });
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "d" }, "spec": {} });
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "shared", "namespace": "default", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "g", "exactly": { "deviceClassName": "gpu" } }] } } });
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": { "name": "g", "namespace": "default", "uid": "g" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } } });
    let cluster = [
        node("n1", &json!({})),
        node("n2", &json!({})),
        slice,
        class,
        claim,
        group,
    ];
    let spec = json!({ "schedulingGroup": { "podGroupName": "g" }, "resourceClaims": [{ "name": "gpu", "resourceClaimName": "shared" }] });
    let pods = json!([pod("m0", &spec), pod("m1", &spec)]);
    let (answer, _) = simulated(&cluster, &pods);
    let both = json!({ "default/m0": "n2", "default/m1": "n2" });
    assert_eq!(answer["placed"], both, "{answer}");
}

#[test]
fn a_custom_resource_named_node_is_no_node_and_volumes_stay_attached() {
    let longhorn = json!({ "apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": { "name": "n1" } });
    let (answer, warnings) =
        simulated(&[longhorn, node("n1", &json!({}))], &pod("web", &json!({})));
    assert_eq!(answer["placed"], json!({ "default/web": "n1" }));
    assert!(warnings.contains("1 Node of longhorn.io"), "{warnings}");
}

#[test]
fn a_chart_becomes_the_pods_of_its_controllers() {
    let template = json!({ "metadata": { "labels": { "app": "a" } }, "spec": { "containers": [{ "name": "c" }] } });
    let workload = |api: &str, kind: &str, name: &str, spec: Value| {
        let mut object = json!({ "apiVersion": api, "kind": kind, "metadata": { "name": name }, "spec": { "template": template } });
        object["spec"]
            .as_object_mut()
            .unwrap()
            .extend(spec.as_object().unwrap().clone());
        object
    };
    let selector = json!({ "matchLabels": { "app": "a" } });
    let chart = json!([
        { "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": { "selector": { "app": "a" } } },
        { "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": { "name": "i" } },
        workload("apps/v1", "DaemonSet", "agent", json!({ "selector": selector })),
        workload("batch/v1", "Job", "j", json!({ "parallelism": 3, "completions": 2 })),
        workload("apps/v1", "StatefulSet", "db", json!({ "selector": selector, "volumeClaimTemplates": [
            { "metadata": { "name": "data" }, "spec": { "storageClassName": "std" } }] })),
    ]);
    let std = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": { "name": "std", "uid": "std" },
        "provisioner": "p", "volumeBindingMode": "WaitForFirstConsumer" });
    let (answer, warnings) = simulated(
        &[node("n1", &json!({})), node("n2", &json!({})), std],
        &chart,
    );
    let placed: Vec<&str> = answer["placed"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = [
        "default/agent-n1",
        "default/agent-n2",
        "default/db-0",
        "default/j-0",
        "default/j-1",
    ];
    assert_eq!(placed, expected, "{answer}");
    assert_eq!(answer["placed"]["default/agent-n2"], "n2");
    assert!(warnings.contains("are ignored: 1 Ingress"), "{warnings}");
}

#[test]
fn a_pod_that_is_not_tried_goes_to_no_node_in_any_command() {
    let gates = json!([{ "name": "kueue.x-k8s.io/admission" }, { "name": "example.org/quota" }]);
    let mut deleting = pod("web", &json!({}));
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut failed = pod("web", &json!({}));
    failed["status"] = json!({ "phase": "Failed" });
    let table = [
        (
            pod("web", &json!({ "schedulingGates": gates })),
            "waiting for scheduling gates: [kueue.x-k8s.io/admission example.org/quota]",
        ),
        (deleting, "skip schedule deleting pod: default/web"),
        (failed, "it has ended with phase Failed"),
    ];
    let cluster = [node("n1", &json!({}))];
    for (pod, reason) in table {
        let (explained, _) = asked("explain", &cluster, &pod);
        assert_eq!(explained["notTried"], reason);
        assert_eq!(explained["feasible"], json!([]));
        let (planned, _) = asked("plan", &cluster, &pod);
        assert_eq!(planned["ineligibleReason"], reason);
        assert_eq!(planned["fitsWithoutPreemption"], false);
        let (simulated, _) = simulated(&cluster, &pod);
        assert_eq!(simulated["placed"], json!({}), "{reason}");
    }
}

#[test]
fn a_simulation_names_the_pods_that_give_way_and_the_reasons_of_gated_ones() {
    let hog = json!({ "nodeName": "n1", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "4" } } }] });
    let mut hog = pod("hog", &hog);
    hog["metadata"]["labels"] = json!({ "app": "hog" });
    let budget = json!({ "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": { "name": "keep", "namespace": "default" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "hog" } } }, "status": { "disruptionsAllowed": 0 } });
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": { "name": "g", "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": 3 } } } });
    let cluster = file(&json!([node("n1", &json!({})), hog, budget, group]));
    let pods = file(&json!([
        pod("vip", &json!({ "priority": 10 })),
        pod("m0", &json!({ "schedulingGroup": { "podGroupName": "g" } })),
        pod("held", &json!({ "schedulingGates": [{ "name": "quota" }] })),
    ]));
    let mut program = scheduler();
    program.env("COLUMNS", "80").args(["simulate", "--cluster"]);
    program.arg(cluster.path()).arg("--pods").arg(pods.path());
    let output = program::run(&mut program, "");
    let page = String::from_utf8(output.stdout).unwrap();
    for line in [
        "1 pod was scheduled after 1 preemption, 0 are unschedulable, 2 are gated.",
        "default/hog  n1    default/vip  default/keep (violated)",
        "its PodGroup default/g needs 3 pods and has 1",
        "waiting for scheduling gates: [quota]",
    ] {
        assert!(page.contains(line), "{line:?} is not in\n{page}");
    }
}

#[test]
fn a4_explain_and_plan_say_the_state_of_a_group_and_place_a_gang_as_a_whole() {
    let group = |count: u64| {
        json!({ "apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": { "name": "g", "namespace": "default" },
            "spec": { "schedulingPolicy": { "gang": { "minCount": count } } } })
    };
    let member = |name: &str, cpu: &str| {
        pod(
            name,
            &json!({ "schedulingGroup": { "podGroupName": "g" },
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] }),
        )
    };
    let nodes = [node("n1", &json!({})), node("n2", &json!({}))];
    let web = member("web", "3");
    let incomplete = [&nodes[..], &[group(3), member("m0", "3")]].concat();
    let reason = "its PodGroup default/g needs 3 pods and has 2";
    let (explained, _) = asked("explain", &incomplete, &web);
    assert_eq!(explained["notTried"], reason);
    let (planned, _) = asked("plan", &incomplete, &web);
    assert_eq!(planned["ineligibleReason"], reason);
    // Each fits by itself, and only two of the three fit together.
    let too_large = [&incomplete[..], &[member("m1", "3")]].concat();
    let (explained, _) = asked("explain", &too_large, &web);
    assert_eq!(explained["chosen"], json!(null), "{explained}");
    assert_eq!(explained["gang"]["waiting"], 3);
    let message = explained["gang"]["message"].as_str().unwrap();
    let of_three = "minCount (3) cannot be satisfied: 2 scheduled, 0 remaining (pod \"web\": 0/2 nodes are available";
    assert!(message.starts_with(of_three), "{message}");
    let (planned, _) = asked("plan", &too_large, &web);
    assert_eq!(planned["fitsWithoutPreemption"], false);
    let (answer, _) = simulated(&too_large, &web);
    assert_eq!(answer["placed"], json!({}));
    // With another pod on the first node, the pod's place in the gang is not the one that it would have by itself.
    let complete = [&nodes[..], &[group(2), member("m0", "3")]].concat();
    let (explained, _) = asked("explain", &complete, &web);
    let (answer, _) = simulated(&complete, &web);
    assert_eq!(explained["gang"]["placed"], answer["placed"]);
    assert_eq!(explained["chosen"], answer["placed"]["default/web"]);
    assert_eq!(explained["chosen"], "n2");
}

#[test]
fn a1_a_stored_pod_in_the_network_of_its_node_holds_the_ports_of_its_containers() {
    let ports = json!({ "hostNetwork": true, "containers": [{ "name": "c", "ports": [{ "containerPort": 8080 }] }] });
    let stored = |name: &str, node: Option<&str>| {
        let mut pod = pod(name, &ports);
        pod["metadata"]["uid"] = json!(name);
        pod["spec"]["nodeName"] = json!(node);
        pod
    };
    let nodes = [node("n1", &json!({})), node("n2", &json!({}))];
    let taken = [&nodes[..], &[stored("holder", Some("n1"))]].concat();
    both_place(&taken, &stored("hn", None), &json!(["n2"]));
    let full = [&taken[..], &[stored("holder2", Some("n2"))]].concat();
    both_place(&full, &stored("hn", None), &json!([]));
}

#[test]
fn a1_a_workload_whose_pods_only_its_controller_knows_is_refused_alone_and_named_beside_pods() {
    let job = json!({ "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": { "name": "train" },
        "spec": { "schedulerName": "volcano", "tasks": [{ "name": "w", "replicas": 2,
            "template": { "spec": { "containers": [{ "name": "a", "image": "x" }] } } }] } });
    let set = json!({ "apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": { "name": "set" },
        "spec": { "replicatedJobs": [{ "name": "w", "template": { "spec": { "template": { "spec": { "containers": [{ "name": "a" }] } } } } }] } });
    let cluster = file(&json!([node("n1", &json!({}))]));
    let says = [
        (
            &job,
            "holds 0 pods",
            "it holds 1 Job of batch.volcano.sh; batch sessions place the pods of Volcano's jobs, and no command here does: see evictd-batch why: Job of batch.volcano.sh default/train\n",
        ),
        (
            &set,
            "holds 0 pods",
            "it holds 1 JobSet; workloads are left out whose pods only their controllers know: give the pods themselves: JobSet default/set\n",
        ),
    ];
    for (workload, start, end) in says {
        for (command, flag) in [
            ("explain", "--pod"),
            ("plan", "--pod"),
            ("simulate", "--pods"),
        ] {
            let ask = |objects: &Value| {
                let pods = file(objects);
                let mut program = scheduler();
                program.arg(command).arg("--cluster").arg(cluster.path());
                let output = program::run(program.arg(flag).arg(pods.path()), "");
                (
                    output.status.code(),
                    String::from_utf8(output.stderr).unwrap(),
                )
            };
            let (code, stderr) = ask(workload);
            assert!(
                code == Some(2) && stderr.contains(start) && stderr.ends_with(end),
                "{command}: {stderr}"
            );
            let (code, stderr) = ask(&json!([workload, pod("beside", &json!({}))]));
            let note = end.split_once("; ").unwrap().1;
            assert!(
                code == Some(0) && stderr.contains(note),
                "{command}: {stderr}"
            );
        }
    }
}

#[test]
fn a6_of_a_daemon_set_no_command_counts_replicas() {
    let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "template": { "spec": { "containers": [{ "name": "a", "image": "x" }] } } } });
    let cluster = [node("n1", &json!({}))];
    for command in ["explain", "plan"] {
        assert_eq!(
            asked(command, &cluster, &set).0["replicas"],
            json!(null),
            "{command}"
        );
    }
    assert_eq!(simulated(&cluster, &set).0["moreFit"], json!(null));
}

#[test]
fn a1_stdin_is_read_once_by_every_command() {
    for (command, flag) in [
        ("explain", "--pod"),
        ("plan", "--pod"),
        ("simulate", "--pods"),
    ] {
        let output = program::run(
            scheduler().args([command, "--cluster", "-", flag, "-"]),
            "{}",
        );
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert!(
            output.status.code() == Some(2) && stderr.contains("only one file can be -"),
            "{command}: {stderr}"
        );
    }
}

#[test]
fn a2_defaults_that_may_decide_are_said_in_a_line_each() {
    let with = |spec: Value| json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "q" }, "spec": spec });
    let ports = json!([{ "containerPort": 8080 }]);
    let cordoned = {
        let mut node = node("n2", &json!({}));
        node["spec"] = json!({ "taints": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }] });
        node
    };
    let mut bare = node("n1", &json!({}));
    bare["metadata"]["uid"] = json!(null);
    bare["status"] = json!({ "capacity": bare["status"]["allocatable"] });
    let cluster = [bare, cordoned];
    let set = json!({ "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": { "name": "agent" },
        "spec": { "template": { "spec": { "containers": [{ "name": "a", "image": "x" }] } } } });
    let cases = [
        (
            with(
                json!({ "containers": [{ "name": "c", "resources": { "limits": { "cpu": "1" } } }] }),
            ),
            "missing requests are set to the limits: Pod default/q",
        ),
        (
            with(json!({ "hostNetwork": true, "containers": [{ "name": "c", "ports": ports }] })),
            "in the network of the node, ports of containers are host ports: Pod default/q",
        ),
        (
            with(json!({ "containers": [{ "name": "c" }] })),
            "offer all of their capacity: Node n1",
        ),
    ];
    for (pod, line) in cases {
        for command in ["explain", "plan", "simulate"] {
            let (_, warnings) = asked(command, &cluster, &pod);
            assert!(warnings.contains(line), "{command}: {warnings}");
        }
    }
    let (answer, warnings) = simulated(&cluster, &set);
    let line = "DaemonSet default/agent: its controller lets it tolerate the state of 1 node";
    assert!(warnings.contains(line), "{warnings}");
    assert_eq!(
        answer["placed"],
        json!({ "default/agent-n1": "n1", "default/agent-n2": "n2" })
    );
}

#[test]
fn a4_of_a_manifest_that_names_its_node_every_command_says_that_no_scheduler_tries_it() {
    let cluster = [node("n1", &json!({}))];
    for name in ["n1", "absent"] {
        let pod = pod("q", &json!({ "nodeName": name }));
        let reason = format!("its spec.nodeName is {name}: no scheduler tries it");
        for command in ["explain", "plan"] {
            let (_, warnings) = asked(command, &cluster, &pod);
            assert!(warnings.contains(&reason), "{command}: {warnings}");
        }
        let (answer, _) = simulated(&cluster, &pod);
        let found = answer["notTried"]["default/q"].as_str();
        assert!(
            found.is_some_and(|found| found.starts_with(&reason)),
            "{answer}"
        );
    }
}

/// S7-113, S7-115: a pod of a tree is tried together with all pods of the tree.
#[test]
fn explain_plan_and_simulate_say_the_same_of_a_tree_of_groups() {
    let composite = json!({ "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup",
        "metadata": { "name": "jobs", "namespace": "default" }, "spec": { "schedulingPolicy": { "gang": { "minGroupCount": 2 } } } });
    let group = |name: &str| {
        json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": { "name": name, "namespace": "default" },
            "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } }, "parentCompositePodGroupName": "jobs" } })
    };
    let member = |name: &str, group: &str, cpu: &str| {
        let containers = json!([{ "name": "c", "resources": { "requests": { "cpu": cpu } } }]);
        let spec =
            json!({ "schedulingGroup": { "podGroupName": group }, "containers": containers });
        pod(name, &spec)
    };
    let base = [node("n1", &json!({})), group("driver"), group("workers")];
    let web = member("web", "driver", "1");
    let (explained, _) = asked("explain", &base, &web);
    let no_parent =
        "its CompositePodGroup default/jobs does not exist in scheduling.k8s.io/v1alpha3";
    assert_eq!(explained["notTried"], no_parent);
    let tree = [&base[..], &[composite]].concat();
    let (explained, _) = asked("explain", &tree, &web);
    let quorum = "waiting for composite pod group \"jobs\" tree to meet quorum: it needs 2 ready groups and has 1";
    assert_eq!(explained["notTried"], quorum);
    let (planned, _) = asked("plan", &tree, &web);
    assert_eq!(planned["ineligibleReason"], quorum);
    for (cpu, placed) in [
        ("9", json!({})),
        ("1", json!({ "default/web": "n1", "default/w0": "n1" })),
    ] {
        let whole = [&tree[..], &[member("w0", "workers", cpu)]].concat();
        let (explained, _) = asked("explain", &whole, &web);
        let gang = &explained["gang"];
        assert_eq!(gang["root"], "CompositePodGroup default/jobs");
        assert_eq!(
            gang["placed"].as_object().cloned().unwrap_or_default(),
            *placed.as_object().unwrap()
        );
        let of_root = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining";
        let message = gang["message"].as_str();
        assert_eq!(
            message.is_some_and(|message| message.starts_with(of_root)),
            cpu == "9",
            "{gang}"
        );
        let (answer, _) = simulated(&whole, &web);
        assert_eq!(answer["placed"], placed, "{cpu}");
    }
}

/// S7-036: the pods of a group of 1.37 have its priority, whatever its policy. kube-scheduler 1.36 does not compare priorities.
#[test]
fn a4_every_command_checks_the_priorities_of_a_group_as_the_release_does() {
    let error = "all pods in a single pod group should have the same priority as the pod group's priority, got 7 and 100";
    let mut web = pod(
        "web",
        &json!({ "schedulingGroup": { "podGroupName": "g" }, "priority": 7 }),
    );
    web["metadata"]["uid"] = json!("web");
    for policy in [json!({ "basic": {} }), json!({ "gang": { "minCount": 1 } })] {
        let group = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
            "metadata": { "name": "g", "namespace": "default" }, "spec": { "schedulingPolicy": policy, "priority": 100 } });
        let cluster = [node("n1", &json!({})), group];
        let asked = |command: &str, release: &str| {
            let release = format!("--emulated-version={release}");
            asked_with(command, &[&release], &cluster, &web).0
        };
        let (explained, planned) = (asked("explain", "1.37"), asked("plan", "1.37"));
        assert_eq!(explained["chosen"], json!(null));
        assert_eq!(explained["gang"]["message"], error);
        assert_eq!(planned["fitsWithoutPreemption"], false);
        assert_eq!(planned["message"], error);
        let simulated = asked("simulate", "1.37");
        assert_eq!(simulated["unschedulable"], json!({ "default/web": error }));

        assert_eq!(asked("explain", "1.36")["chosen"], "n1");
        assert_eq!(asked("plan", "1.36")["fitsWithoutPreemption"], true);
        assert_eq!(
            asked("simulate", "1.36")["placed"],
            json!({ "default/web": "n1" })
        );
    }
}
