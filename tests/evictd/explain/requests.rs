//! By which request a pod is judged: a resize that was not granted, limits without requests, resources at pod level.

use super::{Files, assert_has};
use serde_json::{Value, json};

const OURS: &str = "kind: EvictionConfiguration\n";
const KUBELET: &str = "kind: KubeletConfiguration\n";

fn figures(name: &str, memory: i64, disk: i64) -> Value {
    let file = |bytes: i64| json!({"time": super::NOW, "usedBytes": bytes, "inodesUsed": 1});
    let memory = json!({"time": super::NOW, "workingSetBytes": memory});
    json!({
        "podRef": {"name": name, "namespace": "shop", "uid": name}, "memory": memory,
        "containers": [{"name": "c", "memory": memory, "rootfs": file(disk), "logs": file(0)}],
    })
}

fn summary(memory_available: i64, disk_available: i64, pods: &[Value]) -> Value {
    let disk = json!({"time": super::NOW, "availableBytes": disk_available, "capacityBytes": 100_i64 << 30,
        "inodesFree": 5_000_000, "inodes": 6_000_000});
    json!({
        "node": {
            "nodeName": "n1", "fs": disk, "runtime": {"imageFs": disk, "containerFs": disk},
            "memory": {"time": super::NOW, "availableBytes": memory_available, "workingSetBytes": 16_i64 << 30},
        },
        "pods": pods,
    })
}

fn pod(name: &str, spec: &Value, status: &Value) -> Value {
    let metadata = json!({"name": name, "namespace": "shop", "uid": name});
    json!({"metadata": metadata, "spec": spec, "status": status})
}

fn list(pods: &[Value]) -> Value {
    json!({"kind": "PodList", "items": pods})
}

/// Cases `06` and `06b`.
#[test]
fn s1_068_a_resize_that_was_not_granted_protects_nobody_and_is_told() {
    let of = |memory: &str| json!({"requests": {"memory": memory}, "limits": {"memory": memory}});
    let report =
        json!({"name": "c", "allocatedResources": {"memory": "1Gi"}, "resources": of("1Gi")});
    let conditions =
        json!([{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}]);
    let mut at_pod_level = report.clone();
    at_pod_level["conditions"] = conditions.clone();
    let greedy = [
        pod(
            "greedy",
            &json!({"containers": [{"name": "c"}], "resources": of("64Gi")}),
            &at_pod_level,
        ),
        pod(
            "greedy",
            &json!({"containers": [{"name": "c", "resources": of("64Gi")}]}),
            &json!({"containerStatuses": [report], "conditions": conditions}),
        ),
    ];
    let honest = pod(
        "honest",
        &json!({"containers": [{"name": "c", "resources": of("2Gi")}]}),
        &json!({}),
    );
    let used = [
        figures("greedy", 9 << 30, 0),
        figures("honest", (2 << 30) + (300 << 20), 0),
    ];
    for greedy in greedy {
        let files = Files::of(
            &list(&[greedy, honest.clone()]),
            &summary(60 << 20, 50 << 30, &used),
        );
        for config in [OURS, KUBELET] {
            files.write("config.yaml", config);
            let answer = files.json(&["--config", "config.yaml"]);
            assert_eq!(
                answer["evicted"][0]["pod"], "shop/greedy",
                "{config} {answer}"
            );
            let page = files.page(&["--config", "config.yaml"]);
            let words =
                "8Gi above its request of 1Gi (what is allocated; a resize to 64Gi is infeasible)";
            let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
            assert_has(&page, &[words]);
            assert_eq!(answer["pods"][0]["request"], "1Gi", "{answer}");
        }
    }
}

/// Case `07`, both sides.
#[test]
fn s1_068_a_cpu_request_at_pod_level_hides_the_disk_from_the_kubelet_alone() {
    let requests = json!({"requests": {"ephemeral-storage": "40Gi", "memory": "1Gi"}});
    let spec = json!({"containers": [{"name": "c", "resources": requests}], "resources": {"requests": {"cpu": "300m"}}});
    let pods = [
        pod("builder", &spec, &json!({})),
        pod(
            "scribbler",
            &json!({"containers": [{"name": "c"}]}),
            &json!({}),
        ),
    ];
    let used = [
        figures("builder", 1 << 20, 30 << 30),
        figures("scribbler", 1 << 20, 20 << 30),
    ];
    let files = Files::of(&list(&pods), &summary(4 << 30, 5 << 30, &used));
    for (config, first, words) in [
        (
            OURS,
            "shop/scribbler",
            "uses 30Gi, within its request of 40Gi",
        ),
        (
            KUBELET,
            "shop/builder",
            "uses 30Gi, and the kubelet counts nothing of the 40Gi that it requested",
        ),
    ] {
        files.write("config.yaml", config);
        let answer = files.json(&["--config", "config.yaml"]);
        assert_eq!(answer["next"], first, "{answer}");
        assert!(answer.to_string().contains(words), "{answer}");
    }
}

/// A manifest has the requests that an API server would give it.
#[test]
fn limits_alone_are_requests_of_a_pod_that_no_api_server_has_stored() {
    let spec = json!({"containers": [{"name": "c", "resources": {"limits": {"memory": "2Gi", "cpu": "1"}}}]});
    let used = [figures("a", 1 << 30, 0)];
    let request = |stored: bool| {
        let mut pod = pod("a", &spec, &json!({}));
        if !stored {
            pod["metadata"].as_object_mut().unwrap().remove("uid");
        }
        let files = Files::of(&list(&[pod]), &summary(60 << 20, 50 << 30, &used));
        let answer = files.json(&[]);
        let row = &answer["pods"][0];
        (row["request"].clone(), row["qos"].clone())
    };
    assert_eq!(request(false), (json!("2Gi"), json!("Guaranteed")));
    assert_eq!(request(true), (json!("0"), json!("Burstable")));
}
