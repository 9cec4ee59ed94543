//! Claims on devices that the pods of a group share, against an API server and in files (S7-100 to S7-103).

use crate::live_devices::{claim, device, found, with_cards};
use crate::live_groups::{group, member};
use crate::live_scheduling::{Live, node, pod};
use crate::scheduler;
use evictd_testkit::program::{self, answer};
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::fs;
use tempfile::NamedTempFile;

/// A group of so many pods that share this entry.
fn sharing(min_count: i32, entry: &Value) -> Value {
    let mut group = group("train", min_count, 0);
    group["spec"]["resourceClaims"] = json!([entry]);
    group
}

fn sharer(name: &str, entry: &Value) -> Value {
    let mut pod = member(name, "train", "1", 0);
    pod["spec"]["resourceClaims"] = json!([entry]);
    pod
}

fn named() -> Value {
    json!({ "name": "card", "resourceClaimName": "c" })
}

/// S7-101: the claim is reserved once, for the group.
#[test]
fn s7_101_run_reserves_a_claim_of_a_group_for_the_group() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 1)]);
    claim(&live, "c");
    live.admin.create(sharing(2, &named())).unwrap();
    for name in ["train-0", "train-1"] {
        live.admin.create(sharer(name, &named())).unwrap();
    }
    for name in ["train-0", "train-1"] {
        live.bound(&format!("default/{name}"));
    }
    let uid = live.admin.get("podgroups", "default/train").unwrap()["metadata"]["uid"].clone();
    let expected = json!([{ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": uid }]);
    assert_eq!(found(&live, "c")["status"]["reservedFor"], expected);
    // A later pod needs no further write.
    live.admin.create(sharer("train-2", &named())).unwrap();
    live.bound("default/train-2");
    assert_eq!(found(&live, "c")["status"]["reservedFor"], expected);
}

/// S7-103: as after a restart between the allocation and the bindings.
#[test]
fn s7_103_run_moves_the_claim_of_a_group_that_has_no_room_where_its_device_is() {
    let live = Live::new(&[("full", "1")]);
    with_cards(&live, &[("full", 1), ("free", 1)]);
    live.admin.create(pod("old", "1", 0)).unwrap();
    live.bound("default/old");
    claim(&live, "c");
    let selector = json!({ "nodeSelectorTerms": [
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["full"] }] }] });
    let result = json!({ "request": "card", "driver": "gpu.example.com", "pool": "full", "device": "card-0" });
    let users = json!([{ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "u" }]);
    let status = json!({ "allocation": { "devices": { "results": [result] }, "nodeSelector": selector },
        "reservedFor": users });
    live.admin
        .merge(
            "resourceclaims/status",
            "default/c",
            json!({ "status": status }),
        )
        .unwrap();
    node(&live.admin, "free", "4");
    live.admin.create(sharing(2, &named())).unwrap();
    for name in ["train-0", "train-1"] {
        live.admin.create(sharer(name, &named())).unwrap();
    }
    for name in ["train-0", "train-1"] {
        assert_eq!(live.bound(&format!("default/{name}")), "free");
    }
    wait_until("the claim has the card of the other node", || {
        device(&found(&live, "c")).is_some_and(|(pool, _)| pool == "free")
    });
}

/// Two pods and one card, in files: the placed pods.
fn simulated(objects: &[Value], pods: &[Value]) -> Value {
    let file = |objects: &[Value]| {
        let file = NamedTempFile::new().unwrap();
        let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
        fs::write(file.path(), list.to_string()).unwrap();
        file
    };
    let (cluster, pods) = (file(objects), file(pods));
    let mut program = scheduler();
    program.args(["simulate", "-o", "json", "--emulated-version", "1.37"]);
    program.arg("--cluster").arg(cluster.path());
    program.arg("--pods").arg(pods.path());
    answer(&program::run(&mut program, ""))["placed"].clone()
}

/// S7-100: a template of a group makes one claim for all its pods, in files, too.
#[test]
fn s7_100_simulate_makes_one_claim_for_a_group() {
    const API: &str = "resource.k8s.io/v1";
    let spec = json!({ "driver": "gpu.example.com", "nodeName": "one", "devices": [{ "name": "card-0" }],
        "pool": { "name": "one", "generation": 1, "resourceSliceCount": 1 } });
    let requests = json!([{ "name": "card", "exactly": { "deviceClassName": "gpu" } }]);
    let cluster = [
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one" },
            "status": { "allocatable": { "cpu": "8", "memory": "16Gi", "pods": "20" } } }),
        json!({ "apiVersion": API, "kind": "DeviceClass", "metadata": { "name": "gpu" }, "spec": {} }),
        json!({ "apiVersion": API, "kind": "ResourceSlice", "metadata": { "name": "one" }, "spec": spec }),
        json!({ "apiVersion": API, "kind": "ResourceClaimTemplate",
            "metadata": { "name": "cards", "namespace": "default" },
            "spec": { "spec": { "devices": { "requests": requests } } } }),
    ];
    let entry = json!({ "name": "card", "resourceClaimTemplateName": "cards" });
    let pods = ["train-0", "train-1"].map(|name| sharer(name, &entry));
    let mut all = pods.to_vec();
    all.push(sharing(2, &entry));
    let both = json!({ "default/train-0": "one", "default/train-1": "one" });
    assert_eq!(simulated(&cluster, &all), both);
    // Without the entry of the group each pod has a claim, and there is one card.
    all[2]["spec"]["resourceClaims"] = json!([]);
    assert_eq!(simulated(&cluster, &all), json!({}));
}
