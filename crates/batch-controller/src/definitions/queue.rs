//! A queue that jobs wait in, and its share of the cluster (S6-011).

use super::Amount;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A queue that pod groups wait in, and its share of the cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Queue {
    /// The desired state.
    pub spec: Option<QueueSpec>,
    /// The observed state.
    pub status: Option<QueueStatus>,
}

type Amounts = BTreeMap<String, Amount>;

/// The desired state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueSpec {
    /// Its share beside those of the others.
    #[schemars(range(min = 1, max = 65535), extend("default" = 1))]
    pub weight: Option<i32>,
    /// The most it may use.
    pub capability: Option<Amounts>,
    /// Whether others may take back what it uses above its share; absent means yes.
    pub reclaimable: Option<bool>,
    /// Other clusters that its jobs are sent to.
    pub extend_clusters: Option<Vec<Cluster>>,
    /// What is kept for it alone.
    pub guarantee: Option<Guarantee>,
    /// Groups of nodes that it prefers or avoids.
    pub affinity: Option<Affinity>,
    /// Any text.
    #[serde(rename = "type")]
    #[schemars(length(max = 253))]
    pub kind: Option<String>,
    /// The queue above it; absent means root.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub parent: Option<String>,
    /// What it deserves, with the plugin capacity.
    pub deserved: Option<Amounts>,
    /// The higher comes first, and is taken from last.
    #[schemars(range(min = 0))]
    pub priority: Option<i32>,
    /// What happens when its first group cannot be placed: fifo waits for it, traverse tries the others.
    #[schemars(extend("enum" = ["fifo", "traverse"], "default" = "traverse"))]
    pub dequeue_strategy: Option<String>,
}

/// Another cluster.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Cluster {
    /// Its name.
    pub name: Option<String>,
    /// Its share beside those of the others.
    pub weight: Option<i32>,
    /// What it has.
    pub capacity: Option<Amounts>,
}

/// What is kept for a queue alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Guarantee {
    /// The amounts.
    pub resource: Option<Amounts>,
}

/// Groups of nodes that a queue prefers or avoids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Affinity {
    /// Those where its pods run.
    pub node_group_affinity: Option<NodeGroups>,
    /// Those where they do not run.
    pub node_group_anti_affinity: Option<NodeGroups>,
}

/// Groups of nodes, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NodeGroups {
    /// Without exception.
    pub required_during_scheduling_ignored_during_execution: Option<Vec<String>>,
    /// Where possible.
    pub preferred_during_scheduling_ignored_during_execution: Option<Vec<String>>,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct QueueStatus {
    /// Whether it takes jobs.
    #[schemars(extend("enum" = ["Open", "Closed", "Closing", "Unknown"]))]
    pub state: Option<String>,
    /// Groups whose phase is Unknown.
    #[schemars(range(min = 0))]
    pub unknown: Option<i32>,
    /// Groups that wait to be let in.
    #[schemars(range(min = 0))]
    pub pending: Option<i32>,
    /// Groups that run.
    #[schemars(range(min = 0))]
    pub running: Option<i32>,
    /// Groups that were let in and wait for room.
    #[schemars(range(min = 0))]
    pub inqueue: Option<i32>,
    /// Groups that are done.
    #[schemars(range(min = 0))]
    pub completed: Option<i32>,
    /// Nodes that are kept free for it.
    pub reservation: Option<Reservation>,
    /// What its pods use.
    pub allocated: Option<Amounts>,
}

/// Nodes that are kept free for a queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Reservation {
    /// Their names.
    pub nodes: Option<Vec<String>>,
    /// What is free on them.
    pub resource: Option<Amounts>,
}
