//! The defaults of a pod that no API server has stored.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::{Pod, QosClass, defaults, wire};
use proptest::prelude::*;
use serde_json::{Value, json};

fn completed(pod: &Value) -> wire::Pod {
    let mut pod: wire::Pod = serde_json::from_value(pod.clone()).unwrap();
    defaults::complete(&mut pod);
    pod
}

fn requests(spec: &Value) -> Value {
    let pod = completed(&json!({"spec": spec}));
    json!({
        "containers": pod.spec.containers.iter().map(|own| json!(own.resources.requests)).collect::<Vec<_>>(),
        "pod": pod.spec.resources.as_ref().map(|own| json!(own.requests)),
    })
}

#[test]
fn missing_requests_at_both_levels() {
    let limits = json!({"limits": {"cpu": "8", "memory": "32Gi", "example.com/gpu": "1"}});
    let with_sidecar = json!({
        "containers": [{"resources": {"limits": {"memory": "1Gi"}}}],
        "initContainers": [{"restartPolicy": "Always", "resources": {"requests": {"memory": "1Gi"}}}],
        "resources": {"limits": {"cpu": "4", "memory": "8Gi", "hugepages-2Mi": "4Mi"}},
    });
    let table = [
        (
            json!({"containers": [{}]}),
            json!({"containers": [{}], "pod": null}),
        ),
        (
            json!({"containers": [{"resources": limits}]}),
            json!({"containers": [{"cpu": "8", "memory": "32Gi", "example.com/gpu": "1"}], "pod": null}),
        ),
        (
            json!({"containers": [{"resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "8", "memory": "1Gi"}}}]}),
            json!({"containers": [{"cpu": "1", "memory": "1Gi"}], "pod": null}),
        ),
        // At pod level: the sum of the containers where one has a request, else the limit.
        (
            with_sidecar,
            json!({"containers": [{"memory": "1Gi"}], "pod": {"cpu": "4", "memory": "2Gi", "hugepages-2Mi": "4Mi"}}),
        ),
        // Only where the pod has limits of its own.
        (
            json!({"containers": [{"resources": {"requests": {"memory": "1Gi"}}}], "resources": {"requests": {"cpu": "1"}}}),
            json!({"containers": [{"memory": "1Gi"}], "pod": {"cpu": "1"}}),
        ),
        // A sum for which the pod has no limit.
        (
            json!({"containers": [{"resources": {"requests": {"memory": "1Gi"}}}], "resources": {"limits": {"cpu": "1"}}}),
            json!({"containers": [{"memory": "1Gi"}], "pod": {"cpu": "1", "memory": "1Gi"}}),
        ),
    ];
    for (spec, expected) in table {
        assert_eq!(requests(&spec), expected, "{spec}");
    }
}

#[test]
fn ports_of_the_host_and_the_grace_period() {
    let ports = json!([{"containerPort": 80}, {"containerPort": 443, "hostPort": 8443}]);
    let mut spec = json!({"containers": [{"ports": ports}], "initContainers": [{"ports": ports}]});
    let taken = |spec: &Value| -> Vec<i32> {
        let pod = completed(&json!({"spec": spec}));
        let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
        let ports = containers.flat_map(|own| own.ports.iter());
        ports.map(|port| port.host_port).collect()
    };
    assert_eq!(taken(&spec), [0, 8443, 0, 8443]);
    spec["hostNetwork"] = json!(true);
    assert_eq!(taken(&spec), [80, 8443, 80, 8443]);
    let grace = |spec: Value| {
        completed(&json!({"spec": spec}))
            .spec
            .termination_grace_period_seconds
    };
    assert_eq!(grace(json!({})), Some(30));
    assert_eq!(grace(json!({"terminationGracePeriodSeconds": 0})), Some(0));
}

#[test]
fn a_manifest_with_limits_alone_is_guaranteed_and_asks_for_them() {
    let spec = json!({"containers": [{"resources": {"limits": {"cpu": "8", "memory": "32Gi"}}}]});
    let read = |uid: &str| {
        let pod = json!({"metadata": {"name": "big", "uid": uid}, "spec": spec});
        Pod::from_wire(serde_json::from_value(pod).unwrap())
    };
    let manifest = read("");
    assert_eq!(
        (manifest.qos, manifest.memory_request.to_string()),
        (QosClass::Guaranteed, "32Gi".to_owned())
    );
    let stored = read("1");
    assert_eq!(
        (stored.qos, stored.memory_request.to_string()),
        (QosClass::Burstable, "0".to_owned())
    );
}

fn list() -> impl Strategy<Value = Value> {
    let names = prop::sample::subsequence(
        vec!["cpu", "memory", "ephemeral-storage", "hugepages-2Mi"],
        0..=4,
    );
    (names, prop::collection::vec(0..9_u8, 4)).prop_map(|(names, amounts)| {
        let entries = names.into_iter().zip(amounts);
        entries
            .map(|(name, amount)| (name.to_owned(), json!(amount)))
            .collect()
    })
}

fn resources() -> impl Strategy<Value = Value> {
    (list(), list()).prop_map(|(requests, limits)| json!({"requests": requests, "limits": limits}))
}

proptest! {
    #[test]
    fn doing_it_again_changes_nothing_and_a_stored_pod_stays(
        containers in prop::collection::vec(resources(), 0..3),
        init in prop::collection::vec((resources(), "(|Always)"), 0..3),
        pod_level in prop::option::of(resources()),
        host_network in any::<bool>(),
    ) {
        let ports = json!([{"containerPort": 80}]);
        let containers: Value = containers.iter().map(|own| json!({"resources": own, "ports": ports})).collect();
        let init: Value = init.iter().map(|(own, policy)| json!({"resources": own, "restartPolicy": policy})).collect();
        let spec = json!({"containers": containers, "initContainers": init, "resources": pod_level, "hostNetwork": host_network});
        let text = |pod: &wire::Pod| serde_json::to_string(pod).unwrap();
        let once = completed(&json!({"spec": spec}));
        let mut twice = once.clone();
        defaults::complete(&mut twice);
        prop_assert_eq!(text(&once), text(&twice));
        let stored: wire::Pod = serde_json::from_value(json!({"metadata": {"uid": "1"}, "spec": spec})).unwrap();
        let mut same = stored.clone();
        defaults::complete(&mut same);
        prop_assert_eq!(text(&stored), text(&same));
        // Explicit values stay.
        let lists = |pod: &wire::Pod| {
            let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
            let resources = containers.map(|own| &own.resources).chain(&pod.spec.resources);
            resources.map(|own| own.requests.clone()).collect::<Vec<_>>()
        };
        for (before, after) in lists(&stored).iter().zip(lists(&once)) {
            prop_assert!(before.iter().all(|(name, amount)| after.get(name) == Some(amount)));
        }
    }
}
