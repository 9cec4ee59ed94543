//! A queue that jobs wait in, and its share of the cluster.

use evictd_pod::wire::{Metadata, ResourceList, null_is_default};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A scheduling.volcano.sh/v1beta1 `Queue` (S6-011).
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Queue {
    /// Its name; queues have no namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: QueueSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: QueueStatus,
}

/// `spec` of a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueSpec {
    /// Its share beside those of the others.
    #[serde(deserialize_with = "null_is_default")]
    pub weight: i32,
    /// The most it may use.
    #[serde(deserialize_with = "null_is_default")]
    pub capability: ResourceList,
    /// Whether other queues may reclaim what it uses above its share; absent means yes.
    pub reclaimable: Option<bool>,
    /// Its guaranteed amounts.
    #[serde(deserialize_with = "null_is_default")]
    pub guarantee: Guarantee,
    /// Its deserved amounts, with the plugin `capacity`.
    #[serde(deserialize_with = "null_is_default")]
    pub deserved: ResourceList,
    /// The queue above it; empty means `root`.
    #[serde(deserialize_with = "null_is_default")]
    pub parent: String,
    /// The higher comes first.
    #[serde(deserialize_with = "null_is_default")]
    pub priority: i32,
    /// Groups of nodes that it prefers or avoids.
    pub affinity: Option<Value>,
    /// Any text.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: String,
    /// `fifo` or `traverse`.
    #[serde(deserialize_with = "null_is_default")]
    pub dequeue_strategy: String,
}

/// The guaranteed amounts of a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Guarantee {
    /// The amounts.
    #[serde(deserialize_with = "null_is_default")]
    pub resource: ResourceList,
}

/// `status` of a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueStatus {
    /// `Open`, `Closed`, `Closing`, `Unknown`.
    #[serde(deserialize_with = "null_is_default")]
    pub state: String,
    /// Groups whose phase is not known.
    #[serde(deserialize_with = "null_is_default")]
    pub unknown: i32,
    /// Groups that wait to be let in.
    #[serde(deserialize_with = "null_is_default")]
    pub pending: i32,
    /// Groups that run.
    #[serde(deserialize_with = "null_is_default")]
    pub running: i32,
    /// Groups that were let in and wait for room.
    #[serde(deserialize_with = "null_is_default")]
    pub inqueue: i32,
    /// Groups that are done.
    #[serde(deserialize_with = "null_is_default")]
    pub completed: i32,
    /// The amounts that its pods use.
    #[serde(deserialize_with = "null_is_default")]
    pub allocated: ResourceList,
}
