//! The jobs' side of a cluster, as it is kept between two sessions: whoever watches it puts in and takes out.

use crate::wire::{PodGroup, Queue};
use evictd_pod::wire::{Metadata, Pod, PriorityClass};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by `namespace/name`, or by name where there are no namespaces.
type Known<T> = BTreeMap<Arc<str>, Arc<T>>;

/// Pods of the session's own scheduler, pod groups, queues and priority classes. Nodes, and whatever is on them, are the
/// placement cluster's.
#[derive(Debug, Default)]
pub struct Cache {
    pub(crate) pods: Known<Pod>,
    pub(crate) groups: Known<PodGroup>,
    pub(crate) queues: Known<Queue>,
    pub(crate) classes: Known<PriorityClass>,
}

/// `namespace/name` of an object.
pub(crate) fn key(metadata: &Metadata) -> Arc<str> {
    format!("{}/{}", metadata.namespace_or_default(), metadata.name).into()
}

fn name(metadata: &Metadata) -> Arc<str> {
    metadata.name.as_str().into()
}

impl Cache {
    /// A pod came or changed. It is kept also after its end: its gang counts it.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        self.pods.insert(key(&pod.metadata), pod);
    }

    /// A pod is gone.
    pub fn remove_pod(&mut self, metadata: &Metadata) {
        self.pods.remove(&key(metadata));
    }

    /// The pod of this `namespace/name`.
    pub fn pod(&self, key: &str) -> Option<&Arc<Pod>> {
        self.pods.get(key)
    }

    /// A group came or changed.
    pub fn put_group(&mut self, group: Arc<PodGroup>) {
        self.groups.insert(key(&group.metadata), group);
    }

    /// A group is gone.
    pub fn remove_group(&mut self, metadata: &Metadata) {
        self.groups.remove(&key(metadata));
    }

    /// The group of this `namespace/name`.
    pub fn group(&self, key: &str) -> Option<&Arc<PodGroup>> {
        self.groups.get(key)
    }

    /// A queue came or changed.
    pub fn put_queue(&mut self, queue: Arc<Queue>) {
        self.queues.insert(name(&queue.metadata), queue);
    }

    /// A queue is gone.
    pub fn remove_queue(&mut self, metadata: &Metadata) {
        self.queues.remove(&name(metadata));
    }

    /// The queue of this name.
    pub fn queue(&self, name: &str) -> Option<&Arc<Queue>> {
        self.queues.get(name)
    }

    /// A priority class came or changed.
    pub fn put_class(&mut self, class: Arc<PriorityClass>) {
        self.classes.insert(name(&class.metadata), class);
    }

    /// A priority class is gone.
    pub fn remove_class(&mut self, metadata: &Metadata) {
        self.classes.remove(&name(metadata));
    }
}
