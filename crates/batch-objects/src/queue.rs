//! A queue: jobs wait in it, and share its part of the cluster (S6-011).

use super::schema::{Amounts, ObjectMeta, SUBDOMAIN};
use super::{OpenEnum, QueueState};
use evictd_pod::wire::{Metadata, ResourceList, null_is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A scheduling.volcano.sh/v1beta1 `Queue` (S6-011): pod groups wait in it, and share its part of the cluster.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Queue {
    /// The name. Queues have no namespace.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: QueueSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: QueueStatus,
}

/// The desired state of a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueSpec {
    /// The weight of the queue among its siblings.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 1, max = 65535), extend("x-default" = 1))]
    pub weight: i32,
    /// The upper limit of what the queue may use.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub capability: ResourceList,
    /// Whether other queues may reclaim what the queue uses above its share. Absent means true.
    pub reclaimable: Option<bool>,
    /// Clusters that jobs of the queue are sent to.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub extend_clusters: Vec<Cluster>,
    /// Amounts that are reserved for the queue.
    #[serde(deserialize_with = "null_is_default")]
    pub guarantee: Guarantee,
    /// The deserved amounts, for the plugin capacity.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub deserved: ResourceList,
    /// The parent queue. Absent means root.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN))]
    pub parent: String,
    /// Queues of a higher priority come first, and are reclaimed from last.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub priority: i32,
    /// Groups of nodes that the queue prefers or avoids.
    pub affinity: Option<Affinity>,
    /// Any text.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    #[schemars(length(max = 253))]
    pub kind: String,
    /// What happens if the first job of the queue cannot be placed: `fifo` waits for it, `traverse` tries the next ones.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("enum" = ["fifo", "traverse"], "x-default" = "traverse"))]
    pub dequeue_strategy: String,
}

/// Another cluster.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Cluster {
    /// The name of the cluster.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The weight of the cluster among the others.
    #[serde(deserialize_with = "null_is_default")]
    pub weight: i32,
    /// The capacity of the cluster.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub capacity: ResourceList,
}

/// Amounts that are reserved for a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Guarantee {
    /// The amounts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub resource: ResourceList,
}

/// Groups of nodes that a queue prefers or avoids.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Groups of nodes for the pods of the queue.
    pub node_group_affinity: Option<NodeGroups>,
    /// Groups of nodes that the pods of the queue avoid.
    pub node_group_anti_affinity: Option<NodeGroups>,
}

/// Groups of nodes, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeGroups {
    /// A requirement.
    #[serde(deserialize_with = "null_is_default")]
    pub required_during_scheduling_ignored_during_execution: Vec<String>,
    /// A preference.
    #[serde(deserialize_with = "null_is_default")]
    pub preferred_during_scheduling_ignored_during_execution: Vec<String>,
}

/// The observed state of a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct QueueStatus {
    /// Whether the queue accepts jobs.
    #[serde(deserialize_with = "null_is_default")]
    pub state: OpenEnum<QueueState>,
    /// The number of pod groups in phase Unknown.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// The number of pod groups that are not enqueued.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub pending: i32,
    /// The number of running pod groups.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// The number of pod groups that are enqueued and not placed.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub inqueue: i32,
    /// The number of completed pod groups.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub completed: i32,
    /// Nodes that are reserved for the queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reservation: Option<QueueReservation>,
    /// The amounts that the pods of the queue use.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub allocated: ResourceList,
}

/// Nodes that are reserved for a queue.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct QueueReservation {
    /// Names of the nodes.
    #[serde(deserialize_with = "null_is_default")]
    pub nodes: Vec<String>,
    /// The idle amounts of the nodes.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Amounts")]
    pub resource: ResourceList,
}
