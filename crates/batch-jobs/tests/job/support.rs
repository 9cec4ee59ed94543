//! Jobs, pods and what is around them, as short as a test can say it.

use evictd_batch_jobs::reconcile::JobCase;
use evictd_batch_objects::Compat;
use serde_json::{Value, json};

/// The answer to a case.
pub(super) fn answer(case: Value, compat: Compat) -> Value {
    let case: JobCase = serde_json::from_value(case).unwrap();
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    serde_json::to_value(case.answer(compat, now).unwrap()).unwrap()
}

/// Volcano's answer to a request.
pub(super) fn volcano(case: Value, request: Value) -> Value {
    answer(asked(case, request), Compat::VOLCANO)
}

/// Our answer to a request.
pub(super) fn ours(case: Value, request: Value) -> Value {
    answer(asked(case, request), Compat::EVICTD)
}

pub(super) fn asked(mut case: Value, request: Value) -> Value {
    case["request"] = request;
    case
}

/// A task of this many pods, which all are needed.
pub(super) fn task(name: &str, replicas: i32) -> Value {
    json!({
        "name": name, "replicas": replicas, "minAvailable": replicas,
        "template": {"spec": {"containers": [{
            "name": "c", "image": "busybox", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
        }]}},
    })
}

/// A pod of the job's version 1.
pub(super) fn pod(task: &str, index: i32, phase: &str) -> Value {
    json!({
        "metadata": {
            "name": format!("train-{task}-{index}"), "namespace": "ml", "uid": format!("{task}-{index}"),
            "resourceVersion": "5",
            "labels": {},
            "annotations": {
                "volcano.sh/job-name": "train", "volcano.sh/job-version": "1", "volcano.sh/task-spec": task,
            },
            "ownerReferences": [{
                "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "train", "uid": "u1",
                "controller": true,
            }],
        },
        "status": {"phase": phase},
    })
}

/// The job `ml/train` in this phase and version 1, its queue and its PodGroup, which was let in.
pub(super) fn case(phase: &str, tasks: Value, pods: Value) -> Value {
    let replicas = tasks.as_array().unwrap().iter();
    let replicas: i64 = replicas
        .map(|task| task["replicas"].as_i64().unwrap())
        .sum();
    json!({
        "job": {
            "metadata": {
                "name": "train", "namespace": "ml", "uid": "u1", "resourceVersion": "100",
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {
                "queue": "q", "schedulerName": "volcano", "maxRetry": 3, "minAvailable": replicas,
                "tasks": tasks,
            },
            "status": {"state": {"phase": phase}, "version": 1, "minAvailable": replicas},
        },
        "pods": pods,
        "podGroup": {
            "metadata": {"name": "train-u1", "namespace": "ml"},
            "spec": {"minMember": replicas, "queue": "q"},
            "status": {"phase": "Running"},
        },
        "queue": {"metadata": {"name": "q"}},
        "priorityClasses": [
            {"metadata": {"name": "high"}, "value": 1000},
            {"metadata": {"name": "low"}, "value": 10},
        ],
    })
}

/// The names in a list.
pub(super) fn names(list: &Value) -> Vec<&str> {
    list.as_array()
        .unwrap()
        .iter()
        .map(|name| name.as_str().unwrap())
        .collect()
}

/// The phase that the answer comes to.
pub(super) fn phase(answer: &Value) -> &str {
    answer["status"]["phase"].as_str().unwrap()
}
