//! Stuck victims: a pod whose victim does not end looks for another node (k/k#106780).

use crate::change::{Delta, is_assigned};
use crate::scheduling_queue::SchedulingQueue;
use evictd_pod::wire;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod counts as stuck this long after the end of its grace period: its runtime, its volumes or its node do not work.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// Terminating pods on nodes, and the pods that no longer wait for them.
#[derive(Debug, Default)]
pub(super) struct StuckVictims {
    /// By key.
    terminating: HashMap<Arc<str>, Terminating>,
    /// The nodes on which a waiting pod no longer preempts, by the key of the pod.
    abandoned: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct Terminating {
    node: Arc<str>,
    priority: i32,
    /// `metadata.deletionTimestamp`, which is the end of its grace period.
    until: Timestamp,
}

impl StuckVictims {
    /// A pod was added, changed or deleted.
    pub(super) fn on_pod(&mut self, pods: &Delta<wire::Pod>) {
        if let Some(old) = &pods.old {
            let key = old.metadata.key();
            if pods.new.is_none() || is_assigned(old) {
                self.abandoned.remove(&key);
            }
            if let Some(terminating) = self.terminating.remove(&key) {
                // The pod has ended or was updated, so its node works again.
                for nodes in self.abandoned.values_mut() {
                    nodes.remove(&terminating.node);
                }
            }
        }
        let has_ended = |pod: &wire::Pod| pod.status.phase.has_ended();
        if let Some(new) = &pods.new
            && !has_ended(new)
            && is_assigned(new)
            && let Some(until) = new.metadata.deletion_timestamp
        {
            let terminating = Terminating {
                node: new.spec.node_name.as_str().into(),
                priority: new.spec.priority.unwrap_or(0),
                until: until.timestamp(),
            };
            self.terminating.insert(new.metadata.key(), terminating);
        }
    }

    /// The nodes on which a pod no longer preempts.
    pub(super) fn abandoned_nodes(&self, pod: &str) -> impl Iterator<Item = &Arc<str>> {
        self.abandoned.get(pod).into_iter().flatten()
    }

    pub(super) fn abandon(&mut self, pod: &Arc<str>, node: Arc<str>) {
        let nodes = self.abandoned.entry(Arc::clone(pod)).or_default();
        nodes.insert(node);
    }

    /// The waiting pods that are nominated on a node with a stuck victim of lower priority, with that node.
    pub(super) fn preemptors(
        &self,
        now: Timestamp,
        queue: &SchedulingQueue,
    ) -> Vec<(Arc<str>, Arc<str>)> {
        let mut preemptors = Vec::new();
        for victim in self.terminating.values() {
            if now.duration_since(victim.until) <= PATIENCE {
                continue;
            }
            for pod in queue.nominated_on(&victim.node) {
                let priority = queue.pod(pod).map(|pod| pod.spec.priority.unwrap_or(0));
                let is_higher = priority.is_some_and(|priority| priority > victim.priority);
                // A pod in flight or with a node has left its nomination behind.
                if is_higher && queue.queued_pod(pod).is_some() {
                    preemptors.push((Arc::clone(pod), Arc::clone(&victim.node)));
                }
            }
        }
        preemptors
    }
}
