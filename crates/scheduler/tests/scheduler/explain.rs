//! The pages of `evictd-scheduler explain`.

use crate::{cluster, scheduler};
use evictd_testkit::objects;
use evictd_testkit::program::{self, answer};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Output;

fn explain(items: &[Value], pod: &Value, arguments: &[&str]) -> Output {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{pod}").unwrap();
    let mut command = scheduler();
    command
        .args(["explain", "--cluster", "-", "--pod"])
        .arg(file.path());
    command.args(arguments).env("COLUMNS", "80");
    program::run(&mut command, cluster::list(items))
}

fn node(name: &str, cpu: &str) -> Value {
    let node = objects::node(name).label("kubernetes.io/hostname", name);
    node.cpu(cpu).memory("8Gi").json()
}

/// A pod that no API server has stored: it has no UID.
fn pod(cpu: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "new" }, "spec": { "containers": [{ "name": "c",
        "image": "app", "resources": { "requests": { "cpu": cpu } } }] } })
}

#[test]
fn the_page_shows_the_chosen_node_and_the_deciding_scores() {
    let output = explain(
        &[node("one", "2"), node("two", "4"), node("small", "500m")],
        &pod("1"),
        &[],
    );
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.starts_with(
            "default/new would be assigned to two: the best of 2 nodes that it fits on."
        ),
        "{page}"
    );
    assert!(page.contains("NodeResourcesFit"), "{page}");
    assert!(page.contains("1 Insufficient cpu: small"), "{page}");
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
}

#[test]
fn the_amounts_behind_the_scores_are_shown() {
    let nodes = [node("one", "2"), node("two", "4")];
    // It requests no memory, which counts as 200Mi.
    let result = answer(&explain(&nodes, &pod("1"), &["-o", "json"]));
    let amounts = json!({ "cpu": "1 of 4", "memory": "200Mi of 8Gi" });
    assert_eq!(result["amounts"]["two"], amounts, "{result}");
    let output = explain(&nodes, &pod("1"), &[]);
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(page.contains("Amounts behind the scores:"), "{page}");
}

#[test]
fn the_number_of_pods_like_it_that_fit_is_counted() {
    let nodes = [node("one", "2"), node("two", "4"), node("small", "500m")];
    let result = answer(&explain(&nodes, &pod("1"), &["-o", "json"]));
    assert_eq!(result["replicas"], 6);
    let mut apart = pod("1");
    apart["metadata"]["labels"] = json!({ "app": "web" });
    apart["spec"]["affinity"] = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "kubernetes.io/hostname", "labelSelector": { "matchLabels": { "app": "web" } } }] } });
    let result = answer(&explain(&nodes, &apart, &["-o", "json"]));
    assert_eq!(result["replicas"], 2);
    let page = String::from_utf8(explain(&nodes, &apart, &[]).stdout).unwrap();
    assert!(
        page.contains("2 pods like it fit now, this one included."),
        "{page}"
    );
}

#[test]
fn obstacles_are_shown_with_amounts_and_with_the_events_that_wake_the_pod() {
    let nodes = [node("one", "2"), node("two", "4")];
    let result = answer(&explain(&nodes, &pod("6"), &["-o", "json"]));
    assert_eq!(
        result["obstacles"],
        json!({ "one": "insufficient cpu by 4", "two": "insufficient cpu by 2" })
    );
    assert_eq!(
        result["wakes"]["NodeUpdateNodeAllocatable"],
        json!(["NodeResourcesFit"])
    );
    // No other pod's tolerations matter.
    let mut tainted = node("three", "9");
    tainted["spec"]["taints"] = json!([{ "key": "k", "effect": "NoSchedule" }]);
    let unwanted = answer(&explain(&[tainted], &pod("6"), &["-o", "json"]));
    assert_eq!(
        unwanted["wakes"]["UnschedulablePodUpdatePodToleration"],
        json!(["TaintToleration"])
    );
    assert_eq!(
        result["remedies"],
        json!({ "one": [["4 more cpu"]], "two": [["2 more cpu"]] })
    );
    let page = String::from_utf8(explain(&nodes, &pod("6"), &[]).stdout).unwrap();
    assert!(page.contains("\n  two: 2 more cpu"), "{page}");
    assert!(page.starts_with("default/new fits on no node."), "{page}");
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
}

#[test]
fn a_pod_of_another_scheduler_is_not_tried() {
    let mut other = pod("1");
    other["spec"]["schedulerName"] = json!("other");
    let output = explain(&[node("one", "2")], &other, &["-o", "json"]);
    let reason = answer(&output)["notTried"].clone();
    let known = "no profile is named \"other\"; there is default-scheduler";
    assert!(reason.as_str().unwrap().contains(known), "{reason}");
}

#[test]
fn a_pod_with_a_resource_claim_gets_a_node_with_the_devices() {
    let mut pod = pod("1");
    pod["spec"]["resourceClaims"] = json!([{ "name": "gpu", "resourceClaimName": "one-gpu" }]);
    let api = "resource.k8s.io/v1";
    let class = json!({ "apiVersion": api, "kind": "DeviceClass", "metadata": { "name": "gpu" },
        "spec": { "selectors": [{ "cel": { "expression": "device.attributes['gpu.example.com'].memory >= 40" } }] } });
    let slice = |node: &str, memory: i64| {
        json!({ "apiVersion": api, "kind": "ResourceSlice", "metadata": { "name": node }, "spec": { "driver": "gpu.example.com",
            "nodeName": node, "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "card", "attributes": { "memory": { "int": memory } } }] } })
    };
    let claim = json!({ "apiVersion": api, "kind": "ResourceClaim", "metadata": { "name": "one-gpu" }, "spec": { "devices": {
        "requests": [{ "name": "card", "exactly": { "deviceClassName": "gpu" } }] } } });
    let nodes = [node("one", "8"), node("two", "2"), node("three", "2")];
    let objects = [class, slice("one", 16), slice("two", 40), claim];
    let cluster = [&nodes[..], &objects[..]].concat();
    let result = answer(&explain(&cluster, &pod, &["-o", "json"]));
    assert_eq!(result["chosen"], "two", "{result}");
    for name in ["one", "three"] {
        let reasons = json!(["cannot allocate all claims"]);
        assert_eq!(result["filterStatus"][name]["reasons"], reasons, "{result}");
    }
    // Without the claim object no node fits.
    let result = answer(&explain(&nodes, &pod, &["-o", "json"]));
    let message = result["message"].as_str().unwrap();
    assert!(
        message.contains("could not find ResourceClaim \"default/one-gpu\""),
        "{result}"
    );
}

/// Case `31c`: the node has granted one core of the thirteen, so three are free. While a resize may still be granted, nothing
/// is free. At container level it is the same.
#[test]
fn s4_040_the_room_of_an_infeasible_resize_is_free() {
    let status = |reason: &str| {
        json!({ "name": "c", "phase": "Running", "allocatedResources": { "cpu": "1" },
            "resources": { "requests": { "cpu": "1" } },
            "conditions": [{ "type": "PodResizePending", "status": "True", "reason": reason }] })
    };
    let wanted = json!({ "requests": { "cpu": "13" } });
    for at_pod_level in [true, false] {
        let big = |reason: &str| {
            let mut big = pod("0");
            big["metadata"] = json!({ "name": "big", "namespace": "shop", "uid": "1" });
            let mut status = status(reason);
            if at_pod_level {
                big["spec"] = json!({ "containers": [{ "name": "c" }], "resources": wanted });
            } else {
                big["spec"] = json!({ "containers": [{ "name": "c", "resources": wanted }] });
                status["containerStatuses"] = json!([status]);
            }
            big["spec"]["nodeName"] = json!("one");
            big["status"] = status;
            big
        };
        let goes = |reason: &str, cpu: &str| {
            let cluster = [node("one", "4"), big(reason)];
            answer(&explain(&cluster, &pod(cpu), &["-o", "json"]))["chosen"].clone()
        };
        assert_eq!(goes("Infeasible", "3"), "one", "{at_pod_level}");
        assert_eq!(goes("Infeasible", "3001m"), Value::Null, "{at_pod_level}");
        assert_eq!(goes("Deferred", "1"), Value::Null, "{at_pod_level}");
    }
}

/// Pods in a handmade dump lack the defaults of the API server, such as requests from limits. A stored pod is not changed.
#[test]
fn limits_count_as_requests_of_pods_that_no_api_server_has_defaulted() {
    let limited = |name: &str, cpu: &str| {
        let mut pod = pod("0");
        pod["metadata"]["name"] = json!(name);
        pod["spec"]["containers"][0]["resources"] = json!({ "limits": { "cpu": cpu } });
        pod
    };
    let mut there = limited("there", "3");
    there["spec"]["nodeName"] = json!("one");
    let goes = |there: &Value, pod: &Value| {
        let cluster = [node("one", "4"), there.clone()];
        answer(&explain(&cluster, pod, &["-o", "json"]))["chosen"].clone()
    };
    assert_eq!(goes(&there, &limited("new", "1")), "one");
    assert_eq!(goes(&there, &limited("new", "2")), Value::Null);
    there["metadata"]["uid"] = json!("1");
    assert_eq!(goes(&there, &limited("new", "4")), "one");
}

#[test]
fn a_document_for_a_browser_has_every_node_with_its_score_or_reason() {
    let nodes = [node("one", "2"), node("two", "4"), node("small", "500m")];
    let output = explain(&nodes, &pod("1"), &["-o", "html"]);
    let document = String::from_utf8(output.stdout).unwrap();
    assert!(document.starts_with("<!DOCTYPE html>"), "{document}");
    let verdict = "default/new would be assigned to two: the best of 2 nodes that it fits on.";
    let reason = "1 node: Insufficient cpu";
    for part in [
        verdict,
        "<td>one</td>",
        "<td>two</td>",
        "<td>small</td>",
        reason,
    ] {
        assert!(document.contains(part), "{part} in {document}");
    }
}
