//! A trace as it is written: nodes, queues, and jobs that come over time.

use evictd_batch_objects::{Affinity, NetworkTopology};
use evictd_pod::wire::{ResourceList, full_name};
use serde::de::{Error, Unexpected};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The longest time, in seconds: about 30 years.
const LONGEST: f64 = 1e9;

/// A span of time, to the millisecond. Written as seconds, from 0 to 10⁹.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seconds(u64);

impl Seconds {
    /// So many milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// In milliseconds.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0.is_multiple_of(1000) {
            return serializer.serialize_u64(self.0 / 1000);
        }
        serializer.serialize_f64(in_seconds(self.0))
    }
}

impl<'de> Deserialize<'de> for Seconds {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        if !(0.0..=LONGEST).contains(&seconds) {
            let expected = "seconds from 0 to 1000000000";
            return Err(D::Error::invalid_value(
                Unexpected::Float(seconds),
                &expected,
            ));
        }
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is at most 10¹²"
        )]
        let millis = (seconds * 1000.0).round() as u64;
        Ok(Self(millis))
    }
}

/// Milliseconds as seconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "spans of time are far below 2⁵³ ms"
)]
pub(crate) const fn in_seconds(millis: u64) -> f64 {
    millis as f64 / 1000.0
}

/// Nodes, queues, and the jobs that come.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Trace {
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The author's description of the trace; it is not read.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub statistics: Value,
    /// How long a pod that has to go still holds its room.
    #[serde(default = "Trace::termination_seconds")]
    pub termination_seconds: Seconds,
    /// At least one.
    pub nodes: Vec<Nodes>,
    /// Groups of near nodes. Plugin network-topology-aware reads them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hyper_nodes: Vec<HyperNode>,
    /// Absent or empty means a single one, `default`.
    #[serde(default)]
    pub queues: Vec<Queue>,
    /// In any order.
    pub jobs: Vec<Job>,
}

impl Trace {
    const fn termination_seconds() -> Seconds {
        Seconds(5000)
    }
}

/// Nodes that are alike.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Nodes {
    /// The name of the only one; several are `name-0`, `name-1` and so on.
    pub name: String,
    /// How many there are.
    #[serde(default = "one")]
    pub count: u32,
    /// The allocatable amounts of one; 110 pods by default.
    pub allocatable: ResourceList,
    /// The labels of each, such as its revocable zone or its group for plugin nodegroup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// When they join the cluster; absent means at the beginning.
    #[serde(default, skip_serializing_if = "is_beginning")]
    pub joins: Seconds,
    /// When they are lost, and their pods with them; absent means never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<Seconds>,
}

const fn one() -> u32 {
    1
}

/// A HyperNode, without the selectors of Volcano's.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HyperNode {
    /// Its name.
    pub name: String,
    /// How far apart its nodes are, 0 or more.
    pub tier: i32,
    /// The name of the tier.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tier_name: String,
    /// Names of nodes; the name of several that are alike stands for all of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// Names of HyperNodes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hyper_nodes: Vec<String>,
}

/// A queue.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The queue above it; absent means `root`. Plugin capacity reads it with `enableHierarchy`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub parent: String,
    /// Its share beside those of the others, 1 or more.
    #[serde(default = "one")]
    pub weight: u32,
    /// The higher comes first, where shares decide.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Its deserved amounts, with the plugin capacity.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub deserved: ResourceList,
    /// The most it may use.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub capability: ResourceList,
    /// Its guaranteed amounts.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guarantee: ResourceList,
    /// Whether other queues may reclaim what it uses above its share; absent means yes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reclaimable: Option<bool>,
    /// Its groups of nodes, with the plugin nodegroup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &i32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_beginning(at: &Seconds) -> bool {
    at.0 == 0
}

/// A job: its pods start together, as far as its tasks say so, and each runs for its duration.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// Its name, which no other job of the same owner has.
    pub name: String,
    /// Whose it is: its namespace. Absent means `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Absent means the queue `default`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<String>,
    /// The higher comes first.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// How near to each other its pods have to be. Without a mode it is hard.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_topology: Option<NetworkTopology>,
    /// When it comes, in seconds since the beginning.
    #[serde(default)]
    pub arrival: Seconds,
    /// How long each of its pods runs.
    pub duration: Seconds,
    /// When its owner deletes it, if it has not ended by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<Seconds>,
    /// Annotations of its pod group and its pods, such as `volcano.sh/preemptable`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// At least one.
    pub tasks: Vec<Task>,
}

impl Job {
    /// Its namespace.
    pub(super) fn namespace(&self) -> &str {
        self.owner.as_deref().unwrap_or("default")
    }

    /// The name of its queue.
    pub(super) fn queue_name(&self) -> &str {
        self.queue.as_deref().unwrap_or("default")
    }

    /// `namespace/name`.
    pub(super) fn key(&self) -> String {
        full_name(self.namespace(), &self.name)
    }

    /// How many of its pods start at once or not at all.
    pub(super) fn least(&self) -> u32 {
        self.tasks.iter().map(Task::least).sum()
    }
}

/// Pods of a job that are alike.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Task {
    /// Its name within the job.
    #[serde(default = "Task::worker")]
    pub name: String,
    /// How many pods it has, 1 or more.
    #[serde(default = "one")]
    pub replicas: u32,
    /// So many of them start together with the job or not at all; absent means all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<u32>,
    /// The request of one pod.
    pub requests: ResourceList,
    /// Labels of the nodes that its pods may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
}

impl Task {
    fn worker() -> String {
        "worker".to_owned()
    }

    pub(super) fn least(&self) -> u32 {
        self.min_available.unwrap_or(self.replicas)
    }
}
