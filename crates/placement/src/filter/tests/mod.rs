//! Tests of each filter's codes and messages.
#![allow(
    clippy::needless_pass_by_value,
    reason = "JSON is written where it is handed over"
)]

mod basic;
mod devices;
mod existing_terms;
mod fit;
mod neighbours;
mod of_1_37;
mod volume_limits;
mod volumes;

use crate::{Checks, Cluster};
use serde_json::{Value, from_value, json};
use std::cell::Cell;

thread_local! {
    static VISITED_TERMS: Cell<usize> = const { Cell::new(0) };
}

/// Counts a term of an existing pod that an attempt looks at.
pub(super) fn visit_term() {
    VISITED_TERMS.set(VISITED_TERMS.get() + 1);
}

fn visited_terms() -> usize {
    VISITED_TERMS.get()
}

/// A cluster of these objects, by their kind. An object without a kind is a pod.
fn cluster(objects: &[Value]) -> Cluster {
    let mut cluster = Cluster::new();
    for object in objects {
        let wire = object.clone();
        match object["kind"].as_str().unwrap_or_default() {
            "Node" => assert!(cluster.add_node(&from_value(wire).unwrap())),
            "Namespace" => cluster.add_namespace(&from_value(wire).unwrap()),
            "PersistentVolumeClaim" => cluster.add_claim(&from_value(wire).unwrap()).unwrap(),
            "PersistentVolume" => cluster.add_volume(&from_value(wire).unwrap()).unwrap(),
            "StorageClass" => cluster
                .add_storage_class(&from_value(wire).unwrap())
                .unwrap(),
            "VolumeAttachment" => cluster.add_volume_attachment(&from_value(wire).unwrap()),
            "CSIDriver" => cluster.add_csi_driver(&from_value(wire).unwrap()),
            "CSIStorageCapacity" => {
                cluster
                    .add_storage_capacity(&from_value(wire).unwrap())
                    .unwrap();
            }
            "CSINode" => cluster.add_csi_node(&from_value(wire).unwrap()),
            _ => cluster.add_pod(from_value(wire).unwrap()).unwrap(),
        }
    }
    cluster
}

/// A node with these labels.
fn node(name: &str, labels: Value) -> Value {
    let allocatable =
        json!({"cpu": "4", "memory": "8Gi", "ephemeral-storage": "10Gi", "pods": "3"});
    json!({"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": allocatable}})
}

/// A pod on a node with an `app` label of the same name.
fn pod(app: &str, node: &str, spec: Value) -> Value {
    let mut spec = spec;
    if !node.is_empty() {
        spec["nodeName"] = json!(node);
    }
    json!({"metadata": {"name": app, "labels": {"app": app}}, "spec": spec})
}

/// The result of each node: `fits`, or code and message. A second run gives the same result.
fn answers(objects: &[Value], pod: &Value) -> Vec<String> {
    answers_of(&mut cluster(objects), pod)
}

fn answers_of(cluster: &mut Cluster, pod: &Value) -> Vec<String> {
    let pod = cluster.pod(from_value(pod.clone()).unwrap()).unwrap();
    let mut checks = Checks::new(cluster, &pod);
    let mut answer = |id| match checks.fits(id) {
        Ok(()) => "fits".to_owned(),
        Err(rejection) => {
            let message = checks.messages(rejection).join(", ");
            format!("{}: {message}", rejection.code.as_str())
        }
    };
    let answers: Vec<String> = cluster.node_ids().map(&mut answer).collect();
    assert_eq!(answers, cluster.node_ids().map(answer).collect::<Vec<_>>());
    answers
}

/// The obstacle on each node; `-` without one.
fn obstacles(objects: &[Value], pod: &Value) -> Vec<String> {
    let mut cluster = cluster(objects);
    let pod = cluster.pod(from_value(pod.clone()).unwrap()).unwrap();
    let mut checks = Checks::new(&cluster, &pod);
    let obstacle = |id| checks.on(id).obstacle().unwrap_or_else(|| "-".to_owned());
    cluster.node_ids().map(obstacle).collect()
}

/// Whether each node fits the pod without the node's first pod.
fn fits_without_the_first(objects: &[Value], pod: &Value) -> Vec<bool> {
    let mut cluster = cluster(objects);
    let pod = cluster.pod(from_value(pod.clone()).unwrap()).unwrap();
    let mut checks = Checks::new(&cluster, &pod);
    let answer = |id| {
        let mut trial = checks.on(id);
        if !trial.pods().is_empty() {
            trial.remove(0);
        }
        trial.fits().is_ok()
    };
    cluster.node_ids().map(answer).collect()
}

fn unchecked(objects: &[Value], pod: &Value) -> Vec<String> {
    let mut cluster = cluster(objects);
    let pod = cluster.pod(from_value(pod.clone()).unwrap()).unwrap();
    Checks::new(&cluster, &pod).unchecked()
}
