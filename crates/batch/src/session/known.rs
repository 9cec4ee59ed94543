//! The objects of jobs as watches report them.

use super::objects::key;
use super::pod_id::PodId;
use crate::session::snapshot::upstream::upstream_job;
use evictd_batch_objects::{PodGroup, PodGroupStatus, Queue};
use evictd_pod::wire::{Metadata, Pod};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Objects by `namespace/name`, or by name where there are no namespaces.
type ByKey<T> = BTreeMap<Arc<str>, Arc<T>>;

/// Pods of the batch scheduler, pod groups and queues, for the shell that carries out sessions.
#[derive(Debug, Default)]
pub struct Known {
    pods: BTreeMap<PodId, Arc<Pod>>,
    groups: ByKey<PodGroup>,
    /// Groups of `scheduling.k8s.io`, by the jobs that they are.
    upstream: ByKey<evictd_pod::wire::PodGroup>,
    queues: ByKey<Queue>,
}

fn name(metadata: &Metadata) -> Arc<str> {
    metadata.name.as_str().into()
}

impl Known {
    /// A pod was added or changed. It stays after its end, because its gang counts it.
    pub fn put_pod(&mut self, pod: Arc<Pod>) {
        self.pods.insert(PodId::of(&pod.metadata), pod);
    }

    /// A pod was deleted.
    pub fn remove_pod(&mut self, metadata: &Metadata) {
        self.pods.remove(&PodId::of(metadata));
    }

    /// The status of a group was written, or will be. Returns it as it will be.
    pub fn assume_group(&mut self, key: &str, status: &PodGroupStatus) -> Option<Arc<PodGroup>> {
        let group = self.groups.get_mut(key)?;
        Arc::make_mut(group).status.clone_from(status);
        Some(Arc::clone(group))
    }

    /// The pod of this id.
    pub fn pod(&self, id: &str) -> Option<&Arc<Pod>> {
        self.pods.get(id)
    }

    /// Every pod, in the order of their ids.
    pub fn pods(&self) -> impl Iterator<Item = (&PodId, &Arc<Pod>)> {
        self.pods.iter()
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
