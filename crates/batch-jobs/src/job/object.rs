//! Objects that belong to a job: how they are named, and how their parts are reached.

use super::names::{JOB_API, JOB_KIND};
use evictd_batch_objects::Job;
use serde_json::{Map, Value, json};

/// The namespace of the job and all that belongs to it.
pub(super) fn namespace(job: &Job) -> &str {
    job.metadata.namespace_or_default()
}

/// The name of the task's pod with this index (S6-040).
pub(crate) fn pod_name(job: &str, task: &str, index: i32) -> String {
    format!("{job}-{task}-{index}")
}

/// The name of the job's PodGroup (S6-046).
pub(super) fn group_name(job: &Job) -> String {
    format!("{}-{}", job.metadata.name, job.metadata.uid)
}

/// `ownerReferences` to the job.
pub(super) fn owner(job: &Job) -> Value {
    json!([{
        "apiVersion": JOB_API,
        "kind": JOB_KIND,
        "name": job.metadata.name,
        "uid": *job.metadata.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// `metadata` of an object of the job.
pub(super) fn metadata(job: &Job, name: &str) -> Value {
    json!({"name": name, "namespace": namespace(job), "ownerReferences": owner(job)})
}

/// The map at this key of an object; it is made if it is missing or no map.
pub(super) fn map_at<'a>(
    object: &'a mut Map<String, Value>,
    key: &str,
) -> &'a mut Map<String, Value> {
    let value = object.entry(key).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    match value {
        Value::Object(map) => map,
        // It has just been made one.
        _ => unreachable!(),
    }
}

/// The list at this key of an object; it is made if it is missing or no list.
pub(super) fn list_at<'a>(object: &'a mut Map<String, Value>, key: &str) -> &'a mut Vec<Value> {
    let value = object.entry(key).or_insert_with(|| json!([]));
    if !value.is_array() {
        *value = json!([]);
    }
    match value {
        Value::Array(list) => list,
        // It has just been made one.
        _ => unreachable!(),
    }
}

/// `spec` of a pod, whose containers are to be changed.
pub(super) struct Spec<'a>(&'a mut Map<String, Value>);

impl<'a> Spec<'a> {
    pub(super) fn of(pod: &'a mut Map<String, Value>) -> Self {
        Self(map_at(pod, "spec"))
    }

    /// The text at this key; empty if there is none.
    pub(super) fn text(&self, key: &str) -> &str {
        self.0.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    /// Sets a text that is empty.
    pub(super) fn default_text(&mut self, key: &str, text: &str) {
        if self.text(key).is_empty() && !text.is_empty() {
            self.0.insert(key.to_owned(), text.into());
        }
    }

    pub(super) fn push_volume(&mut self, volume: Value) {
        list_at(self.0, "volumes").push(volume);
    }

    pub(super) fn push_init_container(&mut self, container: Value) {
        list_at(self.0, "initContainers").push(container);
    }

    /// Its containers, without those that initialise it.
    pub(super) fn containers(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        self.of_key("containers")
    }

    /// The containers that initialise it.
    pub(super) fn init_containers(&mut self) -> impl Iterator<Item = &mut Map<String, Value>> {
        self.of_key("initContainers")
    }

    fn of_key(&mut self, key: &str) -> impl Iterator<Item = &mut Map<String, Value>> {
        let list = self.0.get_mut(key).and_then(Value::as_array_mut);
        list.into_iter().flatten().filter_map(Value::as_object_mut)
    }

    /// Does the same to every container, also to those that initialise it.
    pub(super) fn each_container(&mut self, mut change: impl FnMut(&mut Map<String, Value>)) {
        self.containers().for_each(&mut change);
        self.init_containers().for_each(change);
    }
}
