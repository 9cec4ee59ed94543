//! Resource requests of pods, and whether nodes have enough.

use super::{answers, node, obstacles, pod};
use serde_json::{Value, json};

fn asks(requests: Value) -> Value {
    json!({"resources": {"requests": requests}})
}

/// A pod's request in millicores, found by filtering nodes of every size.
fn cores(spec: &Value, status: &Value) -> u64 {
    let fits = |milli: u64| {
        let mut holder = pod("holder", "a", spec.clone());
        holder["status"] = status.clone();
        let mut node = node("a", json!({}));
        node["status"]["allocatable"]["cpu"] = json!(format!("{milli}m"));
        let one = pod(
            "web",
            "",
            json!({"containers": [asks(json!({"cpu": "1m"}))]}),
        );
        answers(&[node, holder], &one) == ["fits"]
    };
    let free = (0..20_000).step_by(50).find(|milli| fits(milli + 1));
    free.unwrap()
}

#[test]
fn requests_of_a_pod() {
    let one = asks(json!({"cpu": "1"}));
    let two = asks(json!({"cpu": "2"}));
    let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "500m"}}});
    let cases = [
        (json!({"containers": [one, two]}), 3000),
        // Init containers run one after the other, so only the largest counts.
        (
            json!({"containers": [one], "initContainers": [two, one]}),
            2000,
        ),
        // A sidecar keeps running beside later containers.
        (
            json!({"containers": [one], "initContainers": [sidecar]}),
            1500,
        ),
        (
            json!({"containers": [one], "initContainers": [sidecar, two]}),
            2500,
        ),
        (
            json!({"containers": [one], "initContainers": [two, sidecar]}),
            2000,
        ),
        (
            json!({"containers": [one], "overhead": {"cpu": "250m"}}),
            1250,
        ),
        (json!({"containers": []}), 0),
    ];
    for (spec, milli) in cases {
        assert_eq!(cores(&spec, &json!({})), milli, "{spec}");
    }
}

#[test]
fn s4_041_pod_level_requests_replace_only_the_named_resources() {
    let spec = json!({
        "containers": [asks(json!({"cpu": "1", "memory": "1Gi"}))],
        "resources": {"requests": {"cpu": "3"}},
    });
    assert_eq!(cores(&spec, &json!({})), 3000);
    let mut small = node("a", json!({}));
    small["status"]["allocatable"]["memory"] = json!("1Gi");
    assert_eq!(
        answers(&[small.clone()], &pod("web", "", spec.clone())),
        ["fits"]
    );
    small["status"]["allocatable"]["memory"] = json!("1023Mi");
    let message = "UnschedulableAndUnresolvable: Insufficient memory";
    assert_eq!(answers(&[small], &pod("web", "", spec)), [message]);
}

#[test]
fn s4_040_a_container_in_resize_counts_with_the_larger_request() {
    let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
    let status = |allocated: &str, running: &str, reason: Option<&str>| {
        let conditions = reason
            .map(|reason| json!({"type": "PodResizePending", "status": "True", "reason": reason}));
        json!({
            "conditions": conditions.into_iter().collect::<Vec<_>>(),
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": allocated},
                "resources": {"requests": {"cpu": running}}}],
        })
    };
    assert_eq!(cores(&spec, &status("2", "1", None)), 2000);
    assert_eq!(cores(&spec, &status("500m", "3", None)), 3000);
    assert_eq!(
        cores(&spec, &status("500m", "500m", Some("Deferred"))),
        1000
    );
    assert_eq!(
        cores(&spec, &status("500m", "500m", Some("Infeasible"))),
        500
    );
}

/// Evicting pods helps only if the request fits the allocatable amount.
#[test]
fn s3_016_a_request_above_allocatable_can_never_be_met() {
    let mut gpus = node("a", json!({}));
    gpus["status"]["allocatable"]["example.com/gpu"] = json!("2");
    let holder = pod(
        "one",
        "a",
        json!({"containers": [asks(json!({
        "cpu": "3", "memory": "6Gi", "ephemeral-storage": "9Gi", "example.com/gpu": "2"}))]}),
    );
    let objects = [
        gpus,
        holder,
        pod("two", "a", json!({})),
        pod("three", "a", json!({})),
    ];
    let cases = [
        (
            json!({}),
            "Unschedulable: Too many pods",
            "too many pods (3 of 3 remain)",
        ),
        (
            json!({"cpu": "1001m"}),
            "Unschedulable: Insufficient cpu, Too many pods",
            "too many pods (3 of 3 remain); insufficient cpu by 1m",
        ),
        (
            json!({"cpu": "5", "memory": "4Gi"}),
            "UnschedulableAndUnresolvable: Insufficient cpu, Insufficient memory, Too many pods",
            "too many pods (3 of 3 remain); insufficient cpu by 4, memory by 2Gi",
        ),
        (
            json!({"ephemeral-storage": "2Gi", "example.com/gpu": "1"}),
            "Unschedulable: Insufficient ephemeral-storage, Insufficient example.com/gpu, Too many pods",
            "too many pods (3 of 3 remain); insufficient ephemeral-storage by 1Gi, example.com/gpu by 1",
        ),
        (
            json!({"example.com/none": "1"}),
            "UnschedulableAndUnresolvable: Insufficient example.com/none, Too many pods",
            "too many pods (3 of 3 remain); insufficient example.com/none by 1",
        ),
    ];
    for (requests, message, obstacle) in cases {
        let pod = pod("web", "", json!({"containers": [asks(requests)]}));
        assert_eq!(answers(&objects, &pod), [message]);
        assert_eq!(obstacles(&objects, &pod), [obstacle]);
    }
}
