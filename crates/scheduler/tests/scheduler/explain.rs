//! `evictd-scheduler explain` as people read it.

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
fn a_page_says_where_a_pod_goes_and_what_decided() {
    let output = explain(
        &[node("one", "2"), node("two", "4"), node("small", "500m")],
        &pod("1"),
        &[],
    );
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.starts_with("default/new goes to two: the best of 2 nodes that it fits on."),
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
fn what_is_in_the_way_is_told_in_figures_with_the_events_that_help() {
    let nodes = [node("one", "2"), node("two", "4")];
    let own = answer(&explain(&nodes, &pod("6"), &["-o", "json"]));
    assert_eq!(
        own["obstacles"],
        json!({ "one": "insufficient cpu by 4", "two": "insufficient cpu by 2" })
    );
    assert_eq!(
        own["wakes"]["NodeUpdateNodeAllocatable"],
        json!(["NodeResourcesFit"])
    );
    assert_eq!(
        own["remedies"],
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
fn a_profile_that_nobody_has_is_told_with_those_that_there_are() {
    let mut other = pod("1");
    other["spec"]["schedulerName"] = json!("other");
    let output = explain(&[node("one", "2")], &other, &[]);
    let told = program::refusal(&output, 2);
    assert!(
        told.contains("no profile is named \"other\"; there is default-scheduler"),
        "{told}"
    );
}

#[test]
fn a_pod_that_claims_devices_goes_where_they_are() {
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
    let own = answer(&explain(&cluster, &pod, &["-o", "json"]));
    assert_eq!(own["chosen"], "two", "{own}");
    for name in ["one", "three"] {
        let reasons = json!(["cannot allocate all claims"]);
        assert_eq!(own["filterStatus"][name]["reasons"], reasons, "{own}");
    }
    // Without the claim it can be nowhere.
    let own = answer(&explain(&nodes, &pod, &["-o", "json"]));
    let message = own["message"].as_str().unwrap();
    assert!(
        message.contains("could not find ResourceClaim \"default/one-gpu\""),
        "{own}"
    );
}

/// Case `31c`: the node has granted one core of the thirteen, so three are free. While a resize may still be granted, nothing
/// is free. At container level it is the same.
#[test]
fn s4_040_room_that_an_infeasible_resize_asked_for_is_free() {
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

/// A dump made by hand has pods with limits alone, which an API server would have completed; a stored pod is what it is.
#[test]
fn limits_alone_are_requests_of_pods_that_no_api_server_has_stored() {
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
