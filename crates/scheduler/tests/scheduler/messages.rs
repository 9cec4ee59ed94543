//! The message about a pod that fits on no node is the same in `explain`, `plan` and `simulate`.

use crate::one_model::{asked, asked_with, node, pod};
use serde_json::{Value, json};

/// A node with one slice of a pool that has two, and a claim for all devices of a class.
fn unfinished_pool() -> [Value; 4] {
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "gpu" }, "spec": {} });
    let slice = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "s", "uid": "s" },
        "spec": { "driver": "gpu.example.org", "nodeName": "n1", "devices": [{ "name": "gpu-0" }],
            "pool": { "name": "n1", "generation": 2, "resourceSliceCount": 2 } } });
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": "all", "namespace": "default", "uid": "all" },
        "spec": { "devices": { "requests": [{ "name": "r", "exactly": { "deviceClassName": "gpu", "allocationMode": "All" } }] } } });
    [node("n1", &json!({})), class, slice, claim]
}

const ERROR: &str = "running \"DynamicResources\" filter plugin: claim default/all, request r: asks for all devices, but resource \
    pool gpu.example.org/n1 is currently being updated";

fn of_claim(name: &str, more: &Value) -> Value {
    let mut spec = json!({ "resourceClaims": [{ "name": "gpu", "resourceClaimName": "all" }] });
    let all = spec.as_object_mut().unwrap();
    all.extend(more.as_object().unwrap().clone());
    pod(name, &spec)
}

#[test]
fn s7_134_s7_196_a_filter_that_cannot_decide_is_the_error_of_the_attempt_in_every_command() {
    let cluster = unfinished_pool();
    let web = of_claim("web", &json!({}));
    let (explained, _) = asked("explain", &cluster, &web);
    assert_eq!(explained["error"], ERROR);
    for key in ["message", "fitError", "wakes", "unschedulablePlugins"] {
        assert_eq!(explained.get(key), None, "{key}");
    }
    assert_eq!(explained["filterStatus"]["n1"]["code"], "Error");
    let (planned, _) = asked("plan", &cluster, &web);
    assert_eq!([&planned["error"], &planned["message"]], [ERROR; 2]);
    assert_eq!(planned["eligible"], false);
    let (simulated, _) = asked("simulate", &cluster, &web);
    assert_eq!(simulated["unschedulable"], json!({ "default/web": ERROR }));

    // Another node lets the pod run, where kube-scheduler ends the attempt.
    let other = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "t", "uid": "t" },
        "spec": { "driver": "gpu.example.org", "nodeName": "n2", "devices": [{ "name": "gpu-0" }],
            "pool": { "name": "n2", "generation": 1, "resourceSliceCount": 1 } } });
    let two = [&cluster[..], &[node("n2", &json!({})), other]].concat();
    let (explained, _) = asked("explain", &two, &web);
    assert_eq!(explained["chosen"], "n2");
    assert_eq!(explained.get("error"), None);
    let (simulated, _) = asked("simulate", &two, &web);
    assert_eq!(simulated["placed"], json!({ "default/web": "n2" }));
}

/// S7-043: the other pods of a group name the error, too.
#[test]
fn s7_043_the_error_of_one_pod_is_that_of_its_group() {
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default" }, "spec": { "schedulingPolicy": { "gang": { "minCount": 2 } } } });
    let member = json!({ "schedulingGroup": { "podGroupName": "g" } });
    let other = pod("other", &member);
    let web = of_claim("web", &member);
    let of_group = format!("failed to schedule other pod from a pod group: {ERROR}");
    let cluster = [&unfinished_pool()[..], &[group.clone(), other.clone()]].concat();
    let (explained, _) = asked("explain", &cluster, &web);
    assert_eq!(explained["gang"]["message"], of_group);
    assert_eq!(explained["error"], ERROR);
    let (planned, _) = asked("plan", &cluster, &web);
    assert_eq!(planned["message"], of_group);
    let cluster = [&unfinished_pool()[..], &[group]].concat();
    let (simulated, _) = asked("simulate", &cluster, &json!([other, web]));
    let expected = json!({ "default/other": of_group, "default/web": ERROR });
    assert_eq!(simulated["unschedulable"], expected);
}

/// S7-039: kube-scheduler 1.36 looks for victims of each pod of a group, 1.37 only for the group.
#[test]
fn s7_039_a_pod_of_a_group_without_a_gang_has_one_message_in_every_command() {
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default" }, "spec": { "schedulingPolicy": { "basic": {} } } });
    let cluster = [node("n1", &json!({})), group];
    let containers = json!([{ "name": "c", "resources": { "requests": { "cpu": "9" } } }]);
    let web = pod(
        "web",
        &json!({ "schedulingGroup": { "podGroupName": "g" }, "containers": containers }),
    );
    let without = "0/1 nodes are available: 1 Insufficient cpu.";
    let with = format!(
        "{without} no new claims to deallocate, preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    );
    for (release, message) in [("1.36", &*with), ("1.37", without)] {
        let flag = format!("--emulated-version={release}");
        let asked = |command: &str| asked_with(command, &[&flag], &cluster, &web).0;
        assert_eq!(asked("explain")["message"], message, "{release}");
        assert_eq!(asked("plan")["message"], message, "{release}");
        let expected = json!({ "default/web": message });
        assert_eq!(asked("simulate")["unschedulable"], expected, "{release}");
    }
}

/// How many copies of a pod fit is said for a pod of a gang, too.
#[test]
fn plan_and_explain_count_the_replicas_of_a_pod_in_a_gang() {
    let group = json!({ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup",
        "metadata": { "name": "g", "namespace": "default" }, "spec": { "schedulingPolicy": { "gang": { "minCount": 1 } } } });
    let cluster = [node("n1", &json!({})), group];
    let web = pod(
        "web",
        &json!({ "schedulingGroup": { "podGroupName": "g" } }),
    );
    for command in ["explain", "plan"] {
        assert_eq!(asked(command, &cluster, &web).0["replicas"], 4, "{command}");
    }
}
