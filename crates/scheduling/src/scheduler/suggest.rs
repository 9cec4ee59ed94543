//! What would help a pod that waits.

use super::Scheduler;
use crate::queue::Pool;
use crate::suggestions::{NodeSuggestions, suggestions};
use evictd_pod::wire;

/// What would help a pod that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suggestions {
    /// On how many nodes it fits as it is: it will be placed when it is its turn.
    pub feasible: usize,
    /// What would let it fit, for the nodes that need the least; empty if it fits.
    pub nodes: Vec<NodeSuggestions>,
}

const POOLS: [Pool; 5] = [
    Pool::Active,
    Pool::Backoff,
    Pool::ErrorBackoff,
    Pool::Unschedulable,
    Pool::Gated,
];

impl Scheduler {
    /// Looks for what would help the pod of that name, on at most `most` nodes. `None` if it does not wait, or cannot be
    /// decided about.
    pub fn suggest(&mut self, namespace: &str, name: &str, most: usize) -> Option<Suggestions> {
        let keys = POOLS.into_iter().flat_map(|pool| self.queue.pods_in(pool));
        let mut pods = keys.filter_map(|key| self.queue.pod(&key));
        let wire = pods.find(|pod| {
            pod.metadata.name == name && pod.metadata.namespace_or_default() == namespace
        })?;
        let wire = (**wire).clone();
        self.interruptible(|own| own.suggest_for(&wire, most))
    }

    fn suggest_for(&mut self, wire: &wire::Pod, most: usize) -> Option<Suggestions> {
        let framework = &self.frameworks[self.profile_of(wire)?];
        let pod = self.cluster.pod(wire.clone()).ok()?;
        let filtered = framework.filter(&self.cluster, &pod);
        self.cluster.release(pod);
        let feasible = filtered.feasible.len();
        let nodes = if feasible == 0 {
            suggestions(&mut self.cluster, framework, wire, &filtered, most)
        } else {
            Vec::new()
        };
        (!self.is_interrupted()).then_some(Suggestions { feasible, nodes })
    }
}
