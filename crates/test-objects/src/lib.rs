//! Builders of objects for tests: a pod, a node, a queue, a job or a group in one expression that says only what matters to the
//! test. They make JSON, as an API server sends it, and [`Object::read`] parses it into any type.
//!
//! ```
//! use evictd_test_objects::{job, node, pod, pod_group, queue};
//! use serde_json::json;
//!
//! let web = pod("web").namespace("shop").cpu("500m").memory("1Gi").priority(10).on("node-1");
//! assert_eq!(web.json()["spec"]["nodeName"], "node-1");
//! let node = node("node-1").cpu("4").memory("8Gi").label("zone", "a").taint("gpu", "NoSchedule");
//! assert_eq!(node.json()["status"]["allocatable"]["pods"], "110");
//! // Any other field by its path.
//! let train = job("train", 2).set("/spec/queue", "ml");
//! assert_eq!(train.json()["spec"]["minAvailable"], 2);
//! assert_eq!(queue("ml").set("/spec/weight", 2).json()["kind"], "Queue");
//! assert_eq!(pod_group("gang", 3).json()["spec"]["schedulingPolicy"]["gang"], json!({ "minCount": 3 }));
//! ```

pub mod recorded;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;

/// An object under construction.
#[derive(Debug, Clone, PartialEq)]
pub struct Object(Value);

/// A pod with one container `c` in the namespace `default`. Its UID is its name.
pub fn pod(name: &str) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "containers": [{ "name": "c" }] },
    }))
}

/// A node with room for 110 pods, and for nothing else yet.
pub fn node(name: &str) -> Object {
    Object(json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name },
        "status": { "allocatable": { "pods": "110" } },
    }))
}

/// A queue of Volcano's with weight 1, before its controller has seen it.
pub fn queue(name: &str) -> Object {
    Object(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue",
        "metadata": { "name": name }, "spec": { "weight": 1 },
    }))
}

/// A job of Volcano's in the queue `default`: one task `w` with so many pods, which must all run.
pub fn job(name: &str, replicas: i32) -> Object {
    let template = json!({ "spec": { "restartPolicy": "Never", "containers": [{ "name": "c", "image": "none" }] } });
    Object(json!({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": { "name": name, "namespace": "default" },
        "spec": {
            "schedulerName": "volcano", "queue": "default", "minAvailable": replicas, "maxRetry": 3,
            "tasks": [{ "name": "w", "replicas": replicas, "minAvailable": replicas, "template": template }],
        },
    }))
}

/// A `PodGroup` of Kubernetes whose pods are placed together once so many are there.
pub fn pod_group(name: &str, min_count: i32) -> Object {
    Object(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } } },
    }))
}

/// A `CompositePodGroup` of Kubernetes: so many of its groups are placed together.
pub fn composite_pod_group(name: &str, min_group_count: i32) -> Object {
    Object(json!({
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minGroupCount": min_group_count } } },
    }))
}

/// A `PodGroup` of Volcano's in the queue `default`: so many pods start together.
pub fn volcano_group(name: &str, min_member: i32) -> Object {
    Object(json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": { "name": name, "namespace": "default" },
        "spec": { "minMember": min_member, "queue": "default" },
    }))
}

/// A pod of Volcano's scheduler that waits, as a member of a `PodGroup` of Volcano's.
pub fn volcano_pod(name: &str, group: &str) -> Object {
    pod(name)
        .annotation("scheduling.k8s.io/group-name", group)
        .set("/spec/schedulerName", "volcano")
        .phase("Pending")
}

/// Any other object.
impl From<Value> for Object {
    fn from(object: Value) -> Self {
        Self(object)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.0
    }
}

impl Object {
    /// Sets a field by its JSON pointer, as `/spec/queue`. Missing objects on the way are created, list entries are not.
    #[must_use]
    pub fn set(mut self, path: &str, value: impl Into<Value>) -> Self {
        let mut at = &mut self.0;
        for part in path.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            at = match at {
                Value::Array(items) => match part.parse::<usize>() {
                    Ok(index) if index < items.len() => &mut items[index],
                    _ => return self,
                },
                other => &mut other[part],
            };
        }
        *at = value.into();
        self
    }

    /// Merges fields into the object. Lists and plain values are replaced.
    #[must_use]
    pub fn merge(mut self, fields: Value) -> Self {
        merge(&mut self.0, fields);
        self
    }

    /// Sets fields of the spec.
    #[must_use]
    pub fn spec(self, fields: Value) -> Self {
        let mut object = serde_json::Map::new();
        object.insert("spec".to_owned(), fields);
        self.merge(Value::Object(object))
    }

    /// Sets the namespace.
    #[must_use]
    pub fn namespace(self, namespace: &str) -> Self {
        self.set("/metadata/namespace", namespace)
    }

    /// Sets the UID.
    #[must_use]
    pub fn uid(self, uid: &str) -> Self {
        self.set("/metadata/uid", uid)
    }

    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["labels"][key] = value.into();
        self
    }

    /// Adds an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.0["metadata"]["annotations"][key] = value.into();
        self
    }

    /// Sets the priority of a pod.
    #[must_use]
    pub fn priority(self, priority: i32) -> Self {
        self.set("/spec/priority", priority)
    }

    /// Puts a pod on a node.
    #[must_use]
    pub fn on(self, node: &str) -> Self {
        self.set("/spec/nodeName", node)
    }

    /// Makes a pod run on a node; it waits without one.
    #[must_use]
    pub fn runs_on(self, node: Option<&str>) -> Self {
        match node {
            Some(node) => self.on(node).phase("Running"),
            None => self.phase("Pending"),
        }
    }

    /// Sets the phase of the status.
    #[must_use]
    pub fn phase(self, phase: &str) -> Self {
        self.set("/status/phase", phase)
    }

    /// Opens a queue, as its controller does.
    #[must_use]
    pub fn open(self) -> Self {
        self.set("/status/state", "Open")
    }

    /// Names the task of a pod of Volcano's.
    #[must_use]
    pub fn of_task(self, task: &str) -> Self {
        self.annotation("volcano.sh/task-spec", task)
    }

    /// Makes a group of Kubernetes a child of a `CompositePodGroup`.
    #[must_use]
    pub fn child_of(self, parent: &str) -> Self {
        self.set("/spec/parentCompositePodGroupName", parent)
    }

    /// Makes a pod a member of a `PodGroup` of Kubernetes.
    #[must_use]
    pub fn member_of(self, group: &str) -> Self {
        self.set("/spec/schedulingGroup/podGroupName", group)
    }

    /// The CPU that a pod requests, or that a node has.
    #[must_use]
    pub fn cpu(self, quantity: &str) -> Self {
        self.resource("cpu", quantity)
    }

    /// The memory that a pod requests, or that a node has.
    #[must_use]
    pub fn memory(self, quantity: &str) -> Self {
        self.resource("memory", quantity)
    }

    /// A resource that the first container of a pod requests, or that a node has.
    #[must_use]
    pub fn resource(mut self, name: &str, quantity: &str) -> Self {
        let amounts = match self.0.pointer_mut("/spec/containers/0") {
            Some(container) => &mut container["resources"]["requests"],
            None => &mut self.0["status"]["allocatable"],
        };
        amounts[name] = quantity.into();
        self
    }

    /// Adds a taint to a node.
    #[must_use]
    pub fn taint(mut self, key: &str, effect: &str) -> Self {
        let taints = &mut self.0["spec"]["taints"];
        if taints.is_null() {
            *taints = json!([]);
        }
        if let Some(taints) = taints.as_array_mut() {
            taints.push(json!({ "key": key, "effect": effect }));
        }
        self
    }

    /// Sets a condition in the status.
    #[must_use]
    pub fn condition(mut self, kind: &str, status: &str) -> Self {
        let conditions = &mut self.0["status"]["conditions"];
        if conditions.is_null() {
            *conditions = json!([]);
        }
        if let Some(conditions) = conditions.as_array_mut() {
            conditions.retain(|condition| condition["type"] != kind);
            conditions.push(json!({ "type": kind, "status": status }));
        }
        self
    }

    /// The object as JSON.
    pub fn json(&self) -> Value {
        self.0.clone()
    }

    /// The object as another type.
    ///
    /// # Panics
    /// If the type does not take it.
    #[allow(clippy::panic, reason = "the caller is a test")]
    pub fn parse<T: DeserializeOwned>(&self) -> T {
        T::deserialize(&self.0).unwrap_or_else(|error| panic!("{error}: {}", self.0))
    }

    /// The object as another type, shared.
    ///
    /// # Panics
    /// As [`Self::parse`].
    pub fn read<T: DeserializeOwned>(&self) -> Arc<T> {
        Arc::new(self.parse())
    }
}

fn merge(into: &mut Value, fields: Value) {
    match (into, fields) {
        (Value::Object(into), Value::Object(fields)) => {
            for (key, value) in fields {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, fields) => *into = fields,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_set_by_their_path_and_amounts_by_the_kind() {
        let made = pod("a")
            .set("/metadata/labels/a~1b", "c")
            .set("/spec/containers/0/image", "i");
        assert_eq!(made.json()["metadata"]["labels"], json!({ "a/b": "c" }));
        let container = json!({ "name": "c", "image": "i" });
        assert_eq!(made.json()["spec"]["containers"], json!([container]));
        let requests = &pod("a").cpu("1").json()["spec"]["containers"][0]["resources"];
        assert_eq!(*requests, json!({ "requests": { "cpu": "1" } }));
        let allocatable = &node("a").cpu("1").json()["status"]["allocatable"];
        assert_eq!(*allocatable, json!({ "cpu": "1", "pods": "110" }));
        let tainted = node("a").taint("x", "NoSchedule").taint("y", "NoExecute");
        assert_eq!(
            tainted.json()["spec"]["taints"].as_array().map(Vec::len),
            Some(2)
        );
        let conditions = node("a")
            .condition("Ready", "True")
            .condition("Ready", "False");
        assert_eq!(
            conditions.json()["status"]["conditions"],
            json!([{ "type": "Ready", "status": "False" }])
        );
    }
}
