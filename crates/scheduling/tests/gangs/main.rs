//! Pods of a group are placed all at once or not at all.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_scheduling::{Change, Delta, Event, Framework, GroupOutcome, Outcome};
use jiff::SignedDuration;
use scenario::{Object, Scenario, added, node, pod_group};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

mod devices;
mod everything;
mod extenders;
mod permits;
mod placing;
mod queue_rows;
mod rows;
#[path = "../scenario/mod.rs"]
mod scenario;
mod tree_victims;
mod trees;
mod volumes;

/// A scenario in which 20 s pass before each event.
struct Scene {
    scenario: Scenario,
    pods: BTreeMap<String, Value>,
}

impl Deref for Scene {
    type Target = Scenario;

    fn deref(&self) -> &Scenario {
        &self.scenario
    }
}

impl DerefMut for Scene {
    fn deref_mut(&mut self) -> &mut Scenario {
        &mut self.scenario
    }
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Object::from(value).read()
}

fn pod(name: &str, group: &str, cpu: &str) -> Value {
    scenario::pod(name).member_of(group).cpu(cpu).json()
}

fn group(name: &str, min_count: i32) -> Value {
    pod_group(name, min_count).json()
}

impl Scene {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With plugins of one's own.
    fn with(more: impl FnOnce(&mut Framework)) -> Self {
        Self {
            scenario: Scenario::with_extenders(true, more),
            pods: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: &Event) {
        self.pass(SignedDuration::from_secs(20));
        self.on(event);
        self.pass(SignedDuration::ZERO);
    }

    fn node(&mut self, name: &str, cpu: &str, rack: &str) {
        let node = node(name).cpu(cpu).memory("4Gi").label("rack", rack);
        let node = node.set("/status/allocatable/pods", "10");
        self.tell(&Event::Change(Change::Node(added(node))));
    }

    fn group(&mut self, group: Value) {
        self.tell(&Event::PodGroup(added(group)));
    }

    /// Creates or changes a pod (`Some`), or deletes it.
    fn pod(&mut self, name: &str, new: Option<Value>) {
        let old = self.pods.remove(name);
        if let Some(new) = &new {
            self.pods.insert(name.to_owned(), new.clone());
        }
        self.tell(&Event::Change(Change::Pod(Delta {
            old: old.map(read),
            new: new.map(read),
        })));
    }

    fn pods(&mut self, group: &str, count: usize, cpu: &str) {
        for index in 0..count {
            let name = format!("{group}-{index}");
            self.pod(&name, Some(pod(&name, group, cpu)));
        }
    }

    /// A pod of the cluster on a node.
    fn running(&mut self, name: &str, node: &str, cpu: &str, priority: i32) {
        let mut new = pod(name, "", cpu);
        new["spec"]["nodeName"] = json!(node);
        new["spec"]["priority"] = json!(priority);
        self.pod(name, Some(new));
    }

    fn message(&mut self) -> String {
        let mut attempts = self.attempts().into_iter();
        match attempts.next().unwrap().outcome {
            Outcome::Unschedulable(rejected) => rejected.message,
            other => panic!("{other:?}"),
        }
    }

    /// The message of the last result of a group that was not placed.
    fn group_message(&mut self) -> String {
        self.attempts();
        let results = self.scheduler.take_group_results();
        match results.into_iter().last().map(|result| result.outcome) {
            Some(GroupOutcome::Unschedulable(message) | GroupOutcome::Error(message)) => message,
            other => panic!("{other:?}"),
        }
    }
}
