//! The cache and the queue together. An operation that changes both is a method here. So they never disagree about the node on
//! which a pod is bound, assumed or nominated.

use super::cache::Cache;
use crate::change::{Change, Delta};
use crate::gang::GroupObject;
use crate::incoming_pods::IncomingPods;
use crate::plugins::PluginSet;
use crate::pre_bind::PreBindPlan;
use crate::queue::{Moved, Pool, Settings};
use crate::scheduling_queue::{Failure, Nomination, SchedulingQueue};
use evictd_placement::{Cluster, NodeId, Pod};
use evictd_pod::wire;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) struct ClusterState {
    pub(super) cache: Cache,
    pub(super) queue: SchedulingQueue,
    incoming: IncomingPods,
}

impl ClusterState {
    pub(super) fn new(
        cluster: Cluster,
        settings: Settings,
        scheduler_names: impl IntoIterator<Item = String>,
        has_extenders: bool,
    ) -> Self {
        Self {
            cache: Cache::new(cluster),
            queue: SchedulingQueue::new(settings, scheduler_names, has_extenders),
            incoming: IncomingPods::default(),
        }
    }

    pub(super) const fn cluster(&self) -> &Cluster {
        &self.cache.cluster
    }

    pub(super) const fn cluster_mut(&mut self) -> &mut Cluster {
        &mut self.cache.cluster
    }

    /// The pod as it was last seen, while it waits or is in flight.
    pub(super) fn pod(&self, key: &str) -> Option<Arc<wire::Pod>> {
        self.queue.pod(key).cloned()
    }

    /// Counts pods that entered a pool.
    pub(super) fn count(&mut self, moved: impl IntoIterator<Item = Moved>) {
        self.incoming.count(moved, self.queue.roots());
    }

    pub(super) fn take_incoming(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, u64)> + use<> {
        self.incoming.take()
    }

    pub(super) fn take_incoming_entities(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, &'static str, u64)> + use<> {
        self.incoming.take_entities()
    }

    pub(super) fn apply(&mut self, now: Timestamp, change: &Change) {
        // The cache first: a woken pod must find the cluster as it is after the change.
        self.cache.apply(change);
        let moved = self.queue.on(now, change);
        self.count(moved);
    }

    pub(super) fn on_group(&mut self, now: Timestamp, delta: &Delta<wire::PodGroup>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => self.cluster_mut().put_pod_group(new),
            (Some(old), None) => self.cluster_mut().remove_pod_group(&old.metadata),
            (None, None) => {}
        }
        let moved = self.queue.on_group(now, delta);
        self.count(moved);
    }

    /// Returns the composite groups that can have no pods, with the reasons.
    pub(super) fn on_composite_group(
        &mut self,
        now: Timestamp,
        delta: &Delta<wire::CompositePodGroup>,
    ) -> Vec<(GroupObject, String)> {
        let (moved, invalid) = self.queue.on_composite_group(now, delta);
        self.count(moved);
        invalid
    }

    /// Tries the waiting pods below a root again.
    pub(super) fn retry_tree(&mut self, now: Timestamp, root: &Arc<str>) {
        let moved = self.queue.retry_tree(now, root);
        self.count(moved);
    }

    pub(super) fn activate<'k>(&mut self, now: Timestamp, keys: impl IntoIterator<Item = &'k str>) {
        let moved = self.queue.activate(now, keys);
        self.count(moved);
    }

    /// Updates the nominations of a changed pod, which may be two pods of one name.
    pub(super) fn renominate(&mut self, pods: &Delta<wire::Pod>) {
        let keys: BTreeSet<Arc<str>> = [&pods.old, &pods.new]
            .into_iter()
            .flatten()
            .map(|pod| pod.metadata.key())
            .collect();
        for key in keys {
            self.nominate(&key);
        }
    }

    /// Makes the nomination of a waiting pod count in the cache as it counts in the queue.
    pub(super) fn nominate(&mut self, key: &str) {
        if let Some(pod) = self.queue.pod(key) {
            let node = self.queue.nominated_node(key);
            self.cache.set_nomination(pod, node.as_deref());
        }
    }

    /// Takes the nomination from a waiting pod, so that it looks for another node.
    pub(super) fn withdraw_nomination(&mut self, now: Timestamp, key: &str) {
        self.queue.leave_nomination(now, key);
        self.nominate(key);
        self.activate(now, [key]);
    }

    /// Ends a failed attempt.
    pub(super) fn failed(&mut self, now: Timestamp, key: &str, failure: &Failure) {
        // A pod that is not in flight was deleted and created again during its attempt. The new pod waits already.
        let moved = self.queue.failed(now, key, failure);
        self.count(moved.ok().flatten());
        self.nominate(key);
    }

    /// Ends an attempt with an error. The pod is tried again after its backoff (S5-042).
    pub(super) fn failed_with_error(&mut self, now: Timestamp, key: &str) {
        let failure = Failure {
            nomination: Nomination::Cleared,
            ..Failure::default()
        };
        self.failed(now, key, &failure);
    }

    /// The pod counts on this node from now on.
    pub(super) fn assume(&mut self, now: Timestamp, key: &str, pod: Pod, node: NodeId) -> Arc<str> {
        let name: Arc<str> = self.cluster().node_name(node).into();
        self.cluster_mut().assume(pod, node);
        self.queue.assume(now, key, &name);
        name
    }

    /// An assumed pod no longer counts on its node, and returns to the queue. Without rejectors it failed with an error.
    pub(super) fn forget(
        &mut self,
        now: Timestamp,
        key: &str,
        pod: &wire::Pod,
        rejectors: PluginSet,
    ) {
        self.cluster_mut().forget_pod(&pod.metadata);
        // An error means that the pod is not in flight any more, because it was deleted meanwhile.
        let moved = self.queue.binding_failed(now, key, rejectors);
        self.count(moved.into_iter().flatten());
        self.nominate(key);
    }

    /// A batch session assumes the pod on this node.
    pub(super) fn bind_of_session(
        &mut self,
        now: Timestamp,
        pod: &Arc<wire::Pod>,
        node: NodeId,
        compiled: Pod,
    ) -> PreBindPlan {
        let cluster = &mut self.cache.cluster;
        self.queue
            .bind_of_session(now, pod, cluster.node_name(node));
        let pre_bind = PreBindPlan::begin(cluster, &compiled, node);
        cluster.assume(compiled, node);
        pre_bind
    }

    /// A pod that a batch session has bound is not on its node.
    pub(super) fn session_pod_left(&mut self, now: Timestamp, pod: &wire::Pod, node: &str) {
        self.cluster_mut().forget_pod(&pod.metadata);
        let moved = self.queue.session_pod_left(now, pod, node);
        self.count(moved);
    }
}
