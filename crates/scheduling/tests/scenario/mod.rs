//! The scheduler as a value, with the objects that a test adds and a clock that the test moves.
#![allow(dead_code, reason = "each test program uses another part")]
#![allow(unreachable_pub, reason = "it is a module of several test programs")]

use evictd_pod::wire;
use evictd_scheduling::{Attempt, Change, Delta, Event, Framework, Outcome, Scheduler, Settings};
#[allow(unused_imports, reason = "each test program uses another part")]
pub use evictd_test_objects::{Object, node, pod, pod_group};
use jiff::{SignedDuration, Timestamp};
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A new object as a change.
pub fn added<T: DeserializeOwned>(object: impl Into<Object>) -> Delta<T> {
    Delta {
        old: None,
        new: Some(object.into().read()),
    }
}

/// A scheduler with the default profile.
pub struct Scenario {
    pub scheduler: Scheduler,
    pub now: Timestamp,
}

impl Scenario {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    /// With another framework than the default one.
    pub fn with(change: impl FnOnce(&mut Framework)) -> Self {
        Self::with_extenders(false, change)
    }

    /// With pods that extenders may reject.
    pub fn with_extenders(has_extenders: bool, change: impl FnOnce(&mut Framework)) -> Self {
        let scheduler = Scheduler::new(Settings::default(), has_extenders, |cluster| {
            let mut framework = Framework::of_default(cluster);
            change(&mut framework);
            Ok::<_, String>(vec![framework])
        });
        Self {
            scheduler: scheduler.unwrap(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    /// Applies an event.
    pub fn on(&mut self, event: &Event) {
        self.scheduler.on(self.now, event);
    }

    /// Applies a change of an object.
    pub fn change(&mut self, change: Change) {
        self.on(&Event::Change(change));
    }

    /// Adds a node.
    pub fn node(&mut self, node: Object) {
        self.change(Change::Node(added(node)));
    }

    /// Adds a pod.
    pub fn pod(&mut self, pod: Object) {
        self.change(Change::Pod(added(pod)));
    }

    /// Adds, changes or deletes a pod.
    pub fn change_pod(&mut self, old: Option<&Arc<wire::Pod>>, new: Option<&Arc<wire::Pod>>) {
        let (old, new) = (old.cloned(), new.cloned());
        self.change(Change::Pod(Delta { old, new }));
    }

    /// Adds a group.
    pub fn group(&mut self, group: Object) {
        self.on(&Event::PodGroup(added(group)));
    }

    /// Lets time pass. Backoffs that are over end.
    pub fn pass(&mut self, time: SignedDuration) {
        self.now = self.now.checked_add(time).unwrap();
        self.scheduler.flush_backoff(self.now);
    }

    /// The next attempt, a few milliseconds later.
    pub fn attempt(&mut self) -> Option<Attempt> {
        self.now = self
            .now
            .checked_add(SignedDuration::from_millis(10))
            .unwrap();
        self.scheduler.attempt(self.now)
    }

    /// The node of the next pod, which is placed.
    pub fn node_of_next(&mut self) -> String {
        match self.attempt().unwrap().outcome {
            Outcome::Placed { node, .. } => node.to_string(),
            other => panic!("{other:?}"),
        }
    }

    /// All attempts until no pod is active.
    pub fn attempts(&mut self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        while let Some(attempt) = self.scheduler.attempt(self.now) {
            attempts.push(attempt);
            assert!(attempts.len() < 1000, "the attempts do not end");
        }
        attempts
    }

    /// The pods that are placed now, with their nodes.
    pub fn placed(&mut self) -> BTreeMap<String, String> {
        let attempts = self.attempts().into_iter();
        let placed = attempts.filter_map(|attempt| match attempt.outcome {
            Outcome::Placed { node, .. } => Some((attempt.key.to_string(), node.to_string())),
            _ => None,
        });
        placed.collect()
    }

    /// The millicores that the pods on a node request.
    pub fn requested(&self, node: &str) -> i64 {
        let cluster = self.scheduler.cluster();
        cluster.node(cluster.find_node(node).unwrap()).requested.cpu
    }
}
