//! The fields that a server sets when an object is created.

use crate::resource::Resource;
use crate::store::{Key, Store};
use serde_json::{Value, json};

/// Objects that every cluster has.
pub(crate) fn bootstrap() -> Vec<Value> {
    let namespaces = ["default", "kube-system", "kube-public", "kube-node-lease"];
    let namespaces = namespaces
        .map(|name| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}));
    let classes = [
        ("system-node-critical", 2_000_001_000),
        ("system-cluster-critical", 2_000_000_000),
    ];
    let classes = classes.map(|(name, value)| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
            "value": value, "preemptionPolicy": "PreemptLowerPriority",
        })
    });
    namespaces.into_iter().chain(classes).collect()
}

fn default(object: &mut Value, field: &str, value: Value) {
    if object[field].is_null() {
        object[field] = value;
    }
}

/// Only fields that evictd or kubectl reads.
pub(crate) fn fill(store: &Store, resource: &Resource, object: &mut Value) {
    match resource.kind {
        "Pod" => pod(store, object),
        "Namespace" => object["status"] = json!({"phase": "Active"}),
        "Node" => {
            default(object, "spec", json!({}));
            default(object, "status", json!({}));
        }
        "CustomResourceDefinition" => {
            let condition = json!({"type": "Established", "status": "True"});
            object["status"] = json!({"conditions": [condition]});
        }
        // The status starts empty, so that the object shows as not yet processed.
        "PodDisruptionBudget" => {
            object["status"] = json!({
                "observedGeneration": 0, "currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0,
                "expectedPods": 0,
            });
        }
        _ => {}
    }
}

fn pod(store: &Store, pod: &mut Value) {
    let class = Key {
        stored: "priorityclasses",
        namespace: String::new(),
        name: pod["spec"]["priorityClassName"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
    };
    let value = store
        .get(&class)
        .map_or(json!(0), |class| class["value"].clone());
    let spec = &mut pod["spec"];
    if !spec.is_object() {
        *spec = json!({});
    }
    default(spec, "priority", value);
    default(spec, "preemptionPolicy", json!("PreemptLowerPriority"));
    default(spec, "restartPolicy", json!("Always"));
    default(spec, "terminationGracePeriodSeconds", json!(30));
    default(spec, "schedulerName", json!("default-scheduler"));
    default(spec, "containers", json!([]));
    for container in spec["containers"].as_array_mut().into_iter().flatten() {
        if container.is_object() {
            default(container, "resources", json!({}));
        }
    }
    let class = quality(&pod["spec"]);
    pod["status"] = json!({"phase": "Pending", "qosClass": class});
}

/// Its QoS class, by the requests and limits of its containers for CPU and memory.
fn quality(spec: &Value) -> &'static str {
    let containers = ["containers", "initContainers"].map(|list| spec[list].as_array());
    let containers: Vec<&Value> = containers.into_iter().flatten().flatten().collect();
    let asks =
        |container: &Value, what: &str, of: &str| !container["resources"][what][of].is_null();
    let any = containers.iter().any(|container| {
        ["cpu", "memory"]
            .iter()
            .any(|of| asks(container, "requests", of) || asks(container, "limits", of))
    });
    let full = containers.iter().all(|container| {
        let (requests, limits) = (
            &container["resources"]["requests"],
            &container["resources"]["limits"],
        );
        ["cpu", "memory"].iter().all(|of| {
            !limits[of].is_null() && (requests[of].is_null() || requests[of] == limits[of])
        })
    });
    match (any, full) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}
