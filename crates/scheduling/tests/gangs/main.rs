//! Pods of a group are placed all at once or not at all.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_scheduling::{Attempt, Change, Delta, Event, Framework, Outcome, Scheduler, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

mod devices;
mod everything;
mod extenders;
mod permits;
mod placing;
mod volumes;

struct Scene {
    scheduler: Scheduler,
    now: Timestamp,
    pods: BTreeMap<String, Value>,
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn pod(name: &str, group: &str, cpu: &str) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "schedulingGroup": { "podGroupName": group }, "containers": [
            { "name": "c", "resources": { "requests": { "cpu": cpu } } }] } })
}

fn group(name: &str, min_count: i32) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } } } })
}

impl Scene {
    fn new() -> Self {
        Self::with(|_| {})
    }

    /// With plugins of one's own.
    fn with(more: impl FnOnce(&mut Framework)) -> Self {
        let scheduler = Scheduler::new(Settings::default(), true, |cluster| {
            let mut framework = Framework::of_default(cluster);
            more(&mut framework);
            Ok::<_, String>(vec![framework])
        });
        Self {
            scheduler: scheduler.unwrap(),
            now: Timestamp::UNIX_EPOCH,
            pods: BTreeMap::new(),
        }
    }

    fn tell(&mut self, event: &Event) {
        self.now = self.now.checked_add(SignedDuration::from_secs(20)).unwrap();
        self.scheduler.on(self.now, event);
        self.scheduler.flush_backoff(self.now);
    }

    fn node(&mut self, name: &str, cpu: &str, rack: &str) {
        let node = read(
            json!({ "metadata": { "name": name, "labels": { "rack": rack } },
            "status": { "allocatable": { "cpu": cpu, "memory": "4Gi", "pods": "10" } } }),
        );
        self.tell(&Event::Change(Change::Node(Delta {
            old: None,
            new: Some(node),
        })));
    }

    fn group(&mut self, group: Value) {
        self.tell(&Event::PodGroup(Delta {
            old: None,
            new: Some(read(group)),
        }));
    }

    /// The pod is now so (`Some`) or gone.
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

    fn attempts(&mut self) -> Vec<Attempt> {
        let mut attempts = Vec::new();
        while let Some(attempt) = self.scheduler.attempt(self.now) {
            attempts.push(attempt);
            assert!(attempts.len() < 1000, "it never ends");
        }
        attempts
    }

    /// The pods that are placed now, with their nodes.
    fn placed(&mut self) -> BTreeMap<String, String> {
        let attempts = self.attempts().into_iter();
        let placed = attempts.filter_map(|attempt| match attempt.outcome {
            Outcome::Placed { node, .. } => Some((attempt.key.to_string(), node.to_string())),
            _ => None,
        });
        placed.collect()
    }

    fn message(&mut self) -> String {
        let mut attempts = self.attempts().into_iter();
        match attempts.next().unwrap().outcome {
            Outcome::Unschedulable(rejected) => rejected.message,
            other => panic!("{other:?}"),
        }
    }

    fn requested(&self, node: &str) -> i64 {
        let cluster = self.scheduler.cluster();
        cluster.node(cluster.find_node(node).unwrap()).requested.cpu
    }
}
