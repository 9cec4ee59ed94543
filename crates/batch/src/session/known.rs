//! The objects of jobs as watches report them, with the decisions that watches do not show yet.

use super::objects::key;
use crate::session::snapshot::upstream::upstream_job;
use crate::wire::{PodGroup, PodGroupStatus, Queue};
use evictd_pod::wire::{Metadata, Pod, Time};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by `namespace/name`, or by name where there are no namespaces.
type ByKey<T> = BTreeMap<Arc<str>, Arc<T>>;

/// Pods of the batch scheduler, pod groups and queues, for the shell that carries out sessions.
///
/// A decision counts as soon as it is made: a pod is on its node, or terminating. A watch event that does not show it
/// yet does not undo it; a failure does.
#[derive(Debug, Default)]
pub struct Known {
    assumed: BTreeMap<Arc<str>, Assumed>,
    pods: ByKey<Pod>,
    groups: ByKey<PodGroup>,
    /// Groups of `scheduling.k8s.io`, by the jobs that they are.
    upstream: ByKey<evictd_pod::wire::PodGroup>,
    queues: ByKey<Queue>,
}

/// A decision about a pod that no watch has confirmed yet.
#[derive(Debug, Default)]
struct Assumed {
    /// Its node.
    node: Option<Box<str>>,
    /// Since when it is being deleted.
    deleted: Option<Timestamp>,
}

impl Assumed {
    /// Applies a watch event, and adds the decisions that it does not show yet. Returns whether any is left.
    fn confirm(&mut self, pod: &mut Arc<Pod>) -> bool {
        if !pod.spec.node_name.is_empty() {
            self.node = None;
        }
        if pod.metadata.deletion_timestamp.is_some() {
            self.deleted = None;
        }
        if let Some(node) = &self.node {
            Arc::make_mut(pod).spec.node_name = node.to_string();
        }
        if self.deleted.is_some() {
            Arc::make_mut(pod).metadata.deletion_timestamp = self.deleted.map(Time::from);
        }
        self.node.is_some() || self.deleted.is_some()
    }
}

fn name(metadata: &Metadata) -> Arc<str> {
    metadata.name.as_str().into()
}

impl Known {
    /// A pod was added or changed. It stays after its end, because its gang counts it. Returns it with the decisions
    /// about it.
    pub fn put_pod(&mut self, mut pod: Arc<Pod>) -> Arc<Pod> {
        let key = key(&pod.metadata);
        let before = self.pods.get(&key);
        let same = before.is_some_and(|before| before.metadata.uid == pod.metadata.uid);
        let assumed = self.assumed.get_mut(&key).filter(|_| same);
        if !assumed.is_some_and(|assumed| assumed.confirm(&mut pod)) {
            self.assumed.remove(&key);
        }
        self.pods.insert(key, Arc::clone(&pod));
        pod
    }

    /// A pod was deleted.
    pub fn remove_pod(&mut self, metadata: &Metadata) {
        let key = key(metadata);
        self.assumed.remove(&key);
        self.pods.remove(&key);
    }

    /// A pod is on its way to a node. Returns it as it will be.
    pub fn assume_bound(&mut self, key: &str, node: &str) -> Option<Arc<Pod>> {
        self.assume(key, |assumed| assumed.node = Some(node.into()))
    }

    /// A pod is about to be deleted. Returns it as it will be.
    pub fn assume_evicted(&mut self, key: &str, now: Timestamp) -> Option<Arc<Pod>> {
        self.assume(key, |assumed| assumed.deleted = Some(now))
    }

    fn assume(&mut self, key: &str, change: impl FnOnce(&mut Assumed)) -> Option<Arc<Pod>> {
        let pod = self.pods.get_mut(key)?;
        let assumed = self.assumed.entry(key.into()).or_default();
        change(assumed);
        assumed.confirm(pod);
        Some(Arc::clone(pod))
    }

    /// A pod is not on the node that it was sent to, unless a watch has said meanwhile that it is. Returns it as it is.
    pub fn not_bound(&mut self, key: &str) -> Option<Arc<Pod>> {
        let (pod, assumed) = (self.pods.get_mut(key)?, self.assumed.get_mut(key)?);
        assumed.node.take()?;
        Arc::make_mut(pod).spec.node_name = String::new();
        Some(Arc::clone(pod))
    }

    /// A pod was not deleted. Returns it as it is.
    pub fn not_evicted(&mut self, key: &str) -> Option<Arc<Pod>> {
        let (pod, assumed) = (self.pods.get_mut(key)?, self.assumed.get_mut(key)?);
        assumed.deleted.take()?;
        Arc::make_mut(pod).metadata.deletion_timestamp = None;
        Some(Arc::clone(pod))
    }

    /// The status of a group was written, or will be. Returns it as it will be.
    pub fn assume_group(&mut self, key: &str, status: &PodGroupStatus) -> Option<Arc<PodGroup>> {
        let group = self.groups.get_mut(key)?;
        Arc::make_mut(group).status.clone_from(status);
        Some(Arc::clone(group))
    }

    /// The pod of this `namespace/name`.
    pub fn pod(&self, key: &str) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// Every pod, in the order of their keys.
    pub fn pods(&self) -> impl Iterator<Item = (&str, &Arc<Pod>)> {
        self.pods.iter().map(|(key, pod)| (&**key, pod))
    }

    /// A group came or changed.
    pub fn put_group(&mut self, group: Arc<PodGroup>) {
        self.groups.insert(key(&group.metadata), group);
    }

    /// A group was deleted.
    pub fn remove_group(&mut self, metadata: &Metadata) {
        self.groups.remove(&key(metadata));
    }

    /// The group of this `namespace/name`.
    pub fn group(&self, key: &str) -> Option<&Arc<PodGroup>> {
        self.groups.get(key)
    }

    /// A group of `scheduling.k8s.io` came or changed.
    pub fn put_upstream(&mut self, group: Arc<evictd_pod::wire::PodGroup>) {
        self.upstream.insert(upstream_job(&group.metadata), group);
    }

    /// A group of `scheduling.k8s.io` was deleted.
    pub fn remove_upstream(&mut self, metadata: &Metadata) {
        self.upstream.remove(&upstream_job(metadata));
    }

    /// The group of `scheduling.k8s.io` that is this job.
    pub fn upstream(&self, job: &str) -> Option<&Arc<evictd_pod::wire::PodGroup>> {
        self.upstream.get(job)
    }

    /// A queue came or changed.
    pub fn put_queue(&mut self, queue: Arc<Queue>) {
        self.queues.insert(name(&queue.metadata), queue);
    }

    /// A queue was deleted.
    pub fn remove_queue(&mut self, metadata: &Metadata) {
        self.queues.remove(&name(metadata));
    }

    /// Whether there is any queue.
    pub fn has_queues(&self) -> bool {
        !self.queues.is_empty()
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Arc<Queue>> {
        self.queues.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(uid: &str, more: Value) -> Arc<Pod> {
        let mut pod = json!({ "metadata": { "name": "a", "namespace": "b", "uid": uid } });
        pod["spec"] = more;
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn node(known: &Known) -> &str {
        &known.pod("b/a").unwrap().spec.node_name
    }

    #[test]
    fn an_older_word_of_a_watch_does_not_undo_a_binding_and_a_failure_does() {
        let mut known = Known::default();
        known.put_pod(pod("1", json!({})));
        let bound = known.assume_bound("b/a", "one").unwrap();
        assert_eq!(bound.spec.node_name, "one");
        known.put_pod(pod("1", json!({ "priority": 7 })));
        assert_eq!(node(&known), "one");
        known.not_bound("b/a");
        assert_eq!(node(&known), "");
        // What a watch has said is not undone.
        known.assume_bound("b/a", "one");
        known.put_pod(pod("1", json!({ "nodeName": "one" })));
        known.not_bound("b/a");
        assert_eq!(node(&known), "one");
    }

    #[test]
    fn another_pod_of_the_same_name_was_never_bound() {
        let mut known = Known::default();
        known.put_pod(pod("1", json!({})));
        known.assume_bound("b/a", "one");
        known.put_pod(pod("2", json!({})));
        assert_eq!(node(&known), "");
        known.not_bound("b/a");
        known.remove_pod(&pod("2", json!({})).metadata);
        assert!(known.pod("b/a").is_none());
    }

    #[test]
    fn an_eviction_counts_until_it_has_failed() {
        let mut known = Known::default();
        known.put_pod(pod("1", json!({ "nodeName": "one" })));
        known.assume_evicted("b/a", Timestamp::UNIX_EPOCH);
        known.put_pod(pod("1", json!({ "nodeName": "one" })));
        assert!(
            known
                .pod("b/a")
                .unwrap()
                .metadata
                .deletion_timestamp
                .is_some()
        );
        let back = known.not_evicted("b/a").unwrap();
        assert!(back.metadata.deletion_timestamp.is_none());
        assert!(known.not_evicted("b/a").is_none());
    }
}
