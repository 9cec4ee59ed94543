//! What can be asked of the queue.

use super::SchedulingQueue;
use crate::queue::{Pool, Waiting};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

impl SchedulingQueue {
    /// The pod as it was last seen, while it waits or is in flight.
    pub fn pod(&self, pod: &str) -> Option<&Arc<wire::Pod>> {
        self.known.pods.get(pod)
    }

    /// How many pods wait.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// How many pods are in a pool.
    pub fn count(&self, pool: Pool) -> usize {
        self.queue.count(pool)
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What a waiting pod has been through.
    pub fn waiting(&self, pod: &str) -> Option<Waiting> {
        self.queue.waiting(pod)
    }

    /// When the first attempt of a pod failed, as long as it waits, is tried or is being bound.
    pub fn first_failure(&self, pod: &str) -> Option<Timestamp> {
        self.queue.first_failure(pod)
    }

    /// The pods of a pool: active ones and those that back off in the order in which they leave it, others by key.
    pub fn pods_in(&self, pool: Pool) -> Vec<Arc<str>> {
        self.queue.pods_in(pool)
    }

    /// How many pods wait that a plugin has rejected, by it and the name of their scheduler: since they were rejected until
    /// they are tried again (S5-039). Zero where none does any more.
    pub fn rejected_counts(&self) -> impl Iterator<Item = (&'static str, &str, usize)> {
        let names: Vec<&str> = self
            .known
            .scheduler_names
            .iter()
            .map(String::as_str)
            .collect();
        let counts = self.queue.rejected_counts();
        counts.filter_map(move |(plugin, profile, count)| {
            Some((plugin.as_str(), *names.get(usize::from(profile))?, count))
        })
    }

    /// The pods in flight in the order of popping.
    pub fn in_flight(&self) -> impl Iterator<Item = &Arc<str>> {
        self.queue.in_flight()
    }

    /// The labels of the events that are kept for the pods in flight.
    pub fn in_flight_events(&self) -> impl Iterator<Item = &'static str> {
        self.queue.in_flight_events()
    }

    /// The node that is being freed for a pod.
    pub fn nominated_node(&self, pod: &str) -> Option<Arc<str>> {
        self.nominations.node_of(pod)
    }

    /// The pods for which this node is being freed, in the order of nomination.
    pub fn nominated_on(&self, node: &str) -> &[Arc<str>] {
        self.nominations.on(node)
    }

    /// All nominations: nodes by name, with their pods.
    pub fn nominated(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.nominations.iter()
    }
}
