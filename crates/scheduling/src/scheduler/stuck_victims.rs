//! Stuck victims: a pod that waits for the room of one looks for another node (k/k#106780).

use super::Scheduler;
use crate::change::{Delta, is_assigned, pod_key};
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
    ending: HashMap<Arc<str>, Ending>,
    /// QueuedPod pods by key, with the nodes that do not become free for them.
    left: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct Ending {
    node: Arc<str>,
    priority: i32,
    /// `metadata.deletionTimestamp`, which is the end of its grace period.
    until: Timestamp,
}

impl StuckVictims {
    /// A pod was added, changed or deleted.
    pub(super) fn on_pod(&mut self, pods: &Delta<wire::Pod>) {
        let is_there =
            |pod: &&Arc<wire::Pod>| !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        if let Some(old) = &pods.old {
            let key = pod_key(&old.metadata);
            if pods.new.is_none() || is_assigned(old) {
                self.left.remove(&key);
            }
            if let Some(ending) = self.ending.remove(&key) {
                // The node has some room now, or reports again.
                for nodes in self.left.values_mut() {
                    nodes.remove(&ending.node);
                }
            }
        }
        if let Some(new) = pods.new.as_ref().filter(is_there)
            && is_assigned(new)
            && let Some(until) = new.metadata.deletion_timestamp
        {
            let ending = Ending {
                node: new.spec.node_name.as_str().into(),
                priority: new.spec.priority.unwrap_or(0),
                until: until.timestamp(),
            };
            self.ending.insert(pod_key(&new.metadata), ending);
        }
    }

    /// The nodes that do not become free for a pod.
    pub(super) fn left_by(&self, pod: &str) -> impl Iterator<Item = &Arc<str>> {
        self.left.get(pod).into_iter().flatten()
    }

    fn nodes(&self, now: Timestamp) -> impl Iterator<Item = (&Arc<str>, i32)> {
        let late = move |pod: &&Ending| now.duration_since(pod.until) > PATIENCE;
        let ending = self.ending.values().filter(late);
        ending.map(|pod| (&pod.node, pod.priority))
    }
}

impl Scheduler {
    /// Withdraws the nominations to nodes with stuck victims, so that their pods look for another node. To be called every
    /// second.
    pub fn leave_stuck_victims(&mut self, now: Timestamp) {
        let mut leaving: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (node, priority) in self.stuck.nodes(now) {
            let nominated = self.queue.nominated_on(node).iter();
            let waits = nominated.filter(|pod| {
                let wire = self.queue.pod(pod);
                let higher = wire.is_some_and(|pod| pod.spec.priority.unwrap_or(0) > priority);
                higher && self.queue.waiting(pod).is_some()
            });
            leaving.extend(waits.map(|pod| (Arc::clone(pod), Arc::clone(node))));
        }
        for (pod, node) in leaving {
            self.stuck
                .left
                .entry(Arc::clone(&pod))
                .or_default()
                .insert(node);
            self.queue.leave_nomination(now, &pod);
            self.nominate(&pod);
            self.moved.extend(self.queue.activate([&*pod]));
        }
    }
}
