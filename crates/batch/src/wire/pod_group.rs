//! A group of pods that start together.

use evictd_pod::wire::{Metadata, ResourceList, null_is_default};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use super::{NetworkTopology, PodGroupConditionType, PodGroupPhase};

/// A scheduling.volcano.sh/v1beta1 `PodGroup` (S6-009).
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroup {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: PodGroupSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: PodGroupStatus,
}

/// `spec` of a group.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// So many pods start at once or none.
    #[serde(deserialize_with = "null_is_default")]
    pub min_member: i32,
    /// The same by the pods' task.
    #[serde(deserialize_with = "null_is_default")]
    pub min_task_member: BTreeMap<String, i32>,
    /// The queue that it waits in.
    #[serde(deserialize_with = "null_is_default")]
    pub queue: String,
    /// The class that gives its priority.
    #[serde(deserialize_with = "null_is_default")]
    pub priority_class_name: String,
    /// The amounts that it needs to be enqueued; absent means that it is enqueued at once.
    pub min_resources: Option<ResourceList>,
    /// How near its pods have to be to each other.
    pub network_topology: Option<NetworkTopology>,
    /// Parts of it that start together, as they were written.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub sub_group_policy: Vec<Value>,
}

/// `status` of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// `Pending`, `Running`, `Unknown`, `Inqueue`, `Completed` (S6-010).
    #[serde(deserialize_with = "null_is_default")]
    pub phase: PodGroupPhase,
    /// Its conditions.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<PodGroupCondition>,
    /// Pods that run.
    #[serde(deserialize_with = "null_is_default")]
    pub running: i32,
    /// Pods that succeeded.
    #[serde(deserialize_with = "null_is_default")]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(deserialize_with = "null_is_default")]
    pub failed: i32,
}

/// A condition of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// `Unschedulable`, `Scheduled`.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: String,
    /// `True`, `False`.
    #[serde(deserialize_with = "null_is_default")]
    pub status: String,
    /// The session that said it.
    #[serde(rename = "transitionID", deserialize_with = "null_is_default")]
    pub transition_id: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
    /// Why, in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

impl PodGroupCondition {
    /// A condition of a session, without a time.
    pub(crate) fn new(
        kind: PodGroupConditionType,
        holds: bool,
        reason: &str,
        message: String,
    ) -> Self {
        Self {
            kind: kind.as_str().to_owned(),
            status: if holds { "True" } else { "False" }.to_owned(),
            reason: reason.to_owned(),
            message,
            ..Self::default()
        }
    }

    pub(crate) fn is(&self, kind: PodGroupConditionType) -> bool {
        self.kind == kind.as_str()
    }

    /// Whether it is of a type and true.
    pub(crate) fn holds(&self, kind: PodGroupConditionType) -> bool {
        self.is(kind) && self.status == "True"
    }
}
