//! Victims that do not end: whoever waits for the room of one that is overdue looks for another node (k/k#106780).

use super::Scheduler;
use crate::change::{Delta, is_assigned, pod_key};
use evictd_pod::wire;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// How long after the time at which it should be gone a pod counts as one that does not end: its runtime, its volumes or
/// its node are out of order.
const PATIENCE: SignedDuration = SignedDuration::from_secs(30);

/// Pods on nodes that are being deleted, and who waits for them no more.
#[derive(Debug, Default)]
pub(super) struct Overdue {
    /// By key.
    ending: HashMap<Arc<str>, Ending>,
    /// Waiting pods by key, with the nodes that do not become free for them.
    left: HashMap<Arc<str>, BTreeSet<Arc<str>>>,
}

#[derive(Debug)]
struct Ending {
    node: Arc<str>,
    priority: i32,
    /// When it should be gone: `metadata.deletionTimestamp` is the end of its grace period.
    until: Timestamp,
}

impl Overdue {
    /// A pod came, changed or went.
    pub(super) fn on_pod(&mut self, pods: &Delta<wire::Pod>) {
        let is_there =
            |pod: &&Arc<wire::Pod>| !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
        if let Some(old) = &pods.old {
            let key = pod_key(&old.metadata);
            if pods.new.is_none() || is_assigned(old) {
                self.left.remove(&key);
            }
            if let Some(ending) = self.ending.remove(&key) {
                // The node has some room now, or has a word to say again.
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
        let late = move |own: &&Ending| now.duration_since(own.until) > PATIENCE;
        let ending = self.ending.values().filter(late);
        ending.map(|own| (&own.node, own.priority))
    }
}

impl Scheduler {
    /// Lets the pods for which a node is being freed that does not become free look for another one; to be called every
    /// second.
    pub fn leave_overdue(&mut self, now: Timestamp) {
        let mut leaving: Vec<(Arc<str>, Arc<str>)> = Vec::new();
        for (node, priority) in self.overdue.nodes(now) {
            let nominated = self.queue.nominated_on(node).iter();
            let waits = nominated.filter(|pod| {
                let wire = self.queue.pod(pod);
                let higher = wire.is_some_and(|own| own.spec.priority.unwrap_or(0) > priority);
                higher && self.queue.waiting(pod).is_some()
            });
            leaving.extend(waits.map(|pod| (Arc::clone(pod), Arc::clone(node))));
        }
        for (pod, node) in leaving {
            self.overdue
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
