//! Pods of a group are placed all at once or not at all.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{
    Change, Delta, Event, Framework, GroupOutcome, Outcome, Scheduler, Settings,
};
use jiff::{SignedDuration, Timestamp};
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
mod table_f;
mod tree_order;
mod tree_victims;
mod trees;
mod victim_order;
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

    /// With the default profile and these plugins at its extension points.
    fn of_plugins(plugins: &Value) -> Self {
        let file = json!({
            "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "profiles": [{ "plugins": plugins }],
        });
        let file = serde_json::from_value(file).unwrap();
        Self::configured(&Configuration::new(&file, &[]).unwrap())
    }

    /// With the first profile of a configuration.
    fn configured(configuration: &Configuration) -> Self {
        let profile = &configuration.profiles[0];
        let scheduler = Scheduler::new(Settings::default(), true, |cluster| {
            Framework::new(cluster, profile, &[]).map(|framework| vec![framework])
        });
        Self {
            scenario: Scenario {
                scheduler: scheduler.unwrap(),
                now: Timestamp::UNIX_EPOCH,
            },
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

    /// A pod of a group on a node, which has run for long.
    fn member_on(&mut self, name: &str, (group, priority): (&str, i32), node: &str, cpu: &str) {
        let mut bound = pod(name, group, cpu);
        bound["spec"]["nodeName"] = json!(node);
        bound["spec"]["priority"] = json!(priority);
        bound["status"] = json!({ "startTime": "1970-01-01T00:00:00Z" });
        self.pod(name, Some(bound));
    }

    /// Behaves as 1.37, which also compares the priorities of a group and its pods.
    fn with_1_37(mut self) -> Self {
        let release = Compatibility::of(Release::V1_37);
        self.scheduler.set_compatibility(release);
        self
    }

    /// The messages of the pods that are not placed now.
    fn messages(&mut self) -> BTreeMap<String, String> {
        let attempts = self.attempts().into_iter();
        let messages = attempts.filter_map(|attempt| match attempt.outcome {
            Outcome::Unschedulable(rejected) => Some((attempt.key.to_string(), rejected.message)),
            Outcome::Error(message) => Some((attempt.key.to_string(), message)),
            _ => None,
        });
        messages.collect()
    }

    /// The pods that the attempts evict now, and the nodes that are nominated, both sorted.
    fn preempted(&mut self) -> (Vec<String>, Vec<String>) {
        let (mut victims, mut nodes) = (Vec::new(), Vec::new());
        for attempt in self.attempts() {
            if let Outcome::Unschedulable(rejected) = attempt.outcome {
                victims.extend(rejected.victims.into_iter().map(|(pod, _)| pod));
                nodes.extend(rejected.nominated);
            }
        }
        victims.sort();
        nodes.sort();
        (victims, nodes)
    }

    /// The results of groups since the last call.
    fn outcomes(&mut self) -> Vec<GroupOutcome> {
        let results = self.scheduler.take_group_results().into_iter();
        results.map(|result| result.outcome).collect()
    }

    /// The results of groups since the last call, the last one of each.
    fn results(&mut self) -> BTreeMap<String, GroupOutcome> {
        let results = self.scheduler.take_group_results().into_iter();
        let results = results.map(|result| (result.group.metadata().name.clone(), result.outcome));
        results.collect()
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
