//! Pods placed one after the other, as kube-scheduler 1.36.2 placed them.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_scheduling::simulation::{SequenceFile, run_sequence};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::path::Path;

/// An absent list or map and an empty one are the same answer.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map
                .iter()
                .map(|(key, value)| (key.clone(), without_empty(value)));
            let some: Map<String, Value> = some.filter(|(_, value)| !value.is_null()).collect();
            if some.is_empty() {
                Value::Null
            } else {
                Value::Object(some)
            }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => Value::Array(list.iter().map(without_empty).collect()),
        other => other.clone(),
    }
}

#[test]
fn every_attempt_equals_that_of_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/sequence");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let file = SequenceFile::deserialize(&case["input"]).unwrap();
        let sequence = file.read(Timestamp::UNIX_EPOCH).unwrap();
        let actual =
            serde_json::to_value(run_sequence(&sequence, &mut |_, _| {}).unwrap()).unwrap();
        let (actual, wanted) = (without_empty(&actual), without_empty(&case["expected"]));
        let attempts = actual["attempts"].as_array().into_iter().flatten();
        let expected = wanted["attempts"].as_array().unwrap();
        let first = attempts
            .zip(expected)
            .enumerate()
            .find(|(_, (actual, wanted))| actual != wanted);
        if let Some((index, (actual, wanted))) = first {
            wrong.push(format!(
                "{}: attempt {index}:\n {actual}\n {wanted}",
                path.display()
            ));
        } else if actual != wanted {
            wrong.push(format!(
                "{}: the end:\n {actual}\n {wanted}",
                path.display()
            ));
        }
        count += 1;
    }
    assert!(count >= 20, "only {count} cases found");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Pods whose driver never binds their devices; one of them asks for an extended resource. The backoff of a configuration may be
/// longer than all time.
#[test]
fn pods_whose_devices_are_never_bound_are_given_up_after_any_backoff() {
    let device = |name: &str| json!({ "name": name, "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] });
    let pool = json!({ "name": "far", "generation": 1, "resourceSliceCount": 1 });
    let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
    let objects = json!([
        { "apiVersion": "v1", "kind": "Node", "metadata": { "name": "one" },
            "status": { "allocatable": { "cpu": "8", "memory": "8Gi", "pods": "110" } } },
        { "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu" },
            "spec": { "extendedResourceName": "example.com/gpu" } },
        { "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": "far" },
            "spec": { "driver": "d", "allNodes": true, "devices": [device("a"), device("b")], "pool": pool } },
        { "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c", "namespace": "default" },
            "spec": { "devices": { "requests": requests } } },
    ]);
    let amounts = json!({ "example.com/gpu": "1" });
    let pending = json!([{ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p", "namespace": "default" },
        "spec": { "containers": [{ "name": "c", "image": "i" }],
            "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] } },
        { "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "extended", "namespace": "default" },
            "spec": { "containers": [{ "name": "c", "image": "i", "resources": { "requests": amounts, "limits": amounts } }] } }]);
    for (backoff, given_up) in [
        (1, json!(["default/p", "default/extended"])),
        (1_000_000_000, json!(["default/p", "default/extended"])),
        (i64::MAX, Value::Null),
    ] {
        let config = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "podInitialBackoffSeconds": backoff, "podMaxBackoffSeconds": backoff });
        let input = json!({ "objects": objects, "pending": pending, "config": config });
        let file = SequenceFile::deserialize(&input).unwrap();
        let sequence = file.read(Timestamp::UNIX_EPOCH).unwrap();
        let outcome = run_sequence(&sequence, &mut |_, _| {}).unwrap();
        let outcome = serde_json::to_value(outcome).unwrap();
        assert_eq!(outcome["givenUp"], given_up, "{backoff}: {outcome}");
        for pod in ["default/p", "default/extended"] {
            let why = outcome["unschedulable"][pod].as_str().unwrap();
            assert!(why.contains("device binding timeout"), "{why}");
        }
    }
}
