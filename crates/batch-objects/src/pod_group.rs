//! A pod group: pods that start together (S6-009, S6-010).

use super::schema::{Amounts, Anything, ObjectMeta, SUBDOMAIN, Time};
use super::{NetworkTopology, OpenEnum, PodGroupConditionType, PodGroupPhase};
use evictd_pod::wire::{ConditionStatus, Metadata, ResourceList, null_is_default};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The annotation of a pod that names its group.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// The annotation of a pod that names its task.
pub const TASK_SPEC: &str = "volcano.sh/task-spec";
/// The annotation of a group with the number of pods that have to stay; also as a percentage.
pub const BUDGET_MIN_AVAILABLE: &str = "volcano.sh/jdb-min-available";
/// The annotation of a group with the number of pods that may be evicted at a time; also as a percentage.
pub const BUDGET_MAX_UNAVAILABLE: &str = "volcano.sh/jdb-max-unavailable";
/// The mark of a group whose `minMember` grows when tasks that depend on others have their turn.
pub const IN_STAGES: &str = "batch.evictd.dev/in-stages";

/// A scheduling.volcano.sh/v1beta1 `PodGroup` (S6-009): pods that start together.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroup {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: PodGroupSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: PodGroupStatus,
}

impl PodGroup {
    /// The annotation that says how many pods of one owner start together. Volcano reads it from the owner, evictd from the
    /// pods (S6-061).
    pub const MIN_MEMBER: &str = "scheduling.volcano.sh/group-min-member";
}

/// The desired state of a pod group.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupSpec {
    /// The size of the gang: so many pods start together, or none starts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_member: i32,
    /// The number of pods that the gang needs of each task.
    #[serde(deserialize_with = "null_is_default")]
    pub min_task_member: BTreeMap<String, i32>,
    /// The queue of the group.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN), extend("x-default" = "default"))]
    pub queue: String,
    /// The priority class of the group.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253))]
    pub priority_class_name: String,
    /// The amounts that have to be free before the group is enqueued. A group without them is enqueued at once.
    #[schemars(with = "Option<Amounts>")]
    pub min_resources: Option<ResourceList>,
    /// How close to each other the pods have to be in the network.
    pub network_topology: Option<NetworkTopology>,
    /// Subgroups, each with requirements.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(with = "Vec<SubGroupPolicy>")]
    pub sub_group_policy: Vec<Value>,
}

/// Subgroups of a pod group.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase")]
#[expect(dead_code, reason = "kept as it was written, to find a difference")]
struct SubGroupPolicy {
    /// The name within the group.
    #[schemars(length(max = 253))]
    name: Option<String>,
    /// How close to each other the pods of a subgroup have to be in the network.
    network_topology: Option<NetworkTopology>,
    /// The number of pods of a subgroup.
    #[schemars(range(min = 1), extend("x-default" = 1))]
    sub_group_size: Option<i32>,
    /// The number of subgroups that start together, or none starts.
    #[schemars(range(min = 0), extend("x-default" = 0))]
    min_sub_groups: Option<i32>,
    /// The pods of the subgroups: a label selector.
    label_selector: Option<Anything>,
    /// Pods with the same values of these labels are one subgroup.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    match_label_keys: Option<Vec<String>>,
}

/// The observed state of a pod group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// The phase (S6-010).
    #[serde(deserialize_with = "null_is_default")]
    pub phase: PodGroupPhase,
    /// The conditions, at most one of each type.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<PodGroupCondition>,
    /// The number of running pods.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub running: i32,
    /// The number of pods that succeeded.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub succeeded: i32,
    /// The number of pods that failed.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub failed: i32,
}

/// A condition of a pod group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupCondition {
    /// Unschedulable, Scheduled or Reserved.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    #[schemars(with = "String")]
    pub kind: OpenEnum<PodGroupConditionType>,
    /// True, False or Unknown.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "String")]
    pub status: ConditionStatus,
    /// The session that set the condition.
    #[serde(rename = "transitionID", deserialize_with = "null_is_default")]
    pub transition_id: String,
    /// When the status changed last.
    #[schemars(with = "Option<Time>")]
    pub last_transition_time: Option<Timestamp>,
    /// The reason in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// The reason in a sentence.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

impl PodGroupCondition {
    /// A condition of a session, without a time.
    pub fn new(kind: PodGroupConditionType, holds: bool, reason: &str, message: String) -> Self {
        Self {
            kind: kind.into(),
            status: holds.into(),
            reason: reason.to_owned(),
            message,
            ..Self::default()
        }
    }

    /// Whether it is of a type.
    pub fn is(&self, kind: PodGroupConditionType) -> bool {
        self.kind == kind
    }

    /// Whether it is of a type and true.
    pub fn holds(&self, kind: PodGroupConditionType) -> bool {
        self.is(kind) && self.status == ConditionStatus::True
    }
}
