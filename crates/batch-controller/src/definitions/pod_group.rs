//! A group of pods that start together (S6-009, S6-010).

use super::job::NetworkTopology;
use super::{Amount, Anything, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A group of pods that start together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroup {
    /// The desired state.
    pub spec: Option<PodGroupSpec>,
    /// The observed state.
    pub status: Option<PodGroupStatus>,
}

/// The desired state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupSpec {
    /// So many pods start at once or none.
    #[schemars(range(min = 0))]
    pub min_member: Option<i32>,
    /// The same by the task of the pods.
    pub min_task_member: Option<BTreeMap<String, i32>>,
    /// The queue that it waits in.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        extend("default" = "default")
    )]
    pub queue: Option<String>,
    /// The class that gives its priority.
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
    /// What it needs to be let in; absent lets it in at once.
    pub min_resources: Option<BTreeMap<String, Amount>>,
    /// How near its pods have to be to each other.
    pub network_topology: Option<NetworkTopology>,
    /// Parts of it, with needs of their own.
    pub sub_group_policy: Option<Vec<SubGroupPolicy>>,
}

/// A part of a group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SubGroupPolicy {
    /// Its name within the group.
    #[schemars(length(max = 253))]
    pub name: Option<String>,
    /// How near the pods of a part have to be to each other.
    pub network_topology: Option<NetworkTopology>,
    /// So many pods are a part.
    #[schemars(range(min = 1), extend("default" = 1))]
    pub sub_group_size: Option<i32>,
    /// So many parts start at once or none.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub min_sub_groups: Option<i32>,
    /// The pods that it is about: a label selector.
    pub label_selector: Option<Anything>,
    /// Pods with the same values of these labels are one part.
    #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
    pub match_label_keys: Option<Vec<String>>,
}

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupStatus {
    /// Where it is in its life.
    #[schemars(extend("enum" = ["Pending", "Running", "Unknown", "Inqueue", "Completed"]))]
    pub phase: Option<String>,
    /// What was last said of it.
    pub conditions: Option<Vec<PodGroupCondition>>,
    /// Pods that run.
    #[schemars(range(min = 0))]
    pub running: Option<i32>,
    /// Pods that succeeded.
    #[schemars(range(min = 0))]
    pub succeeded: Option<i32>,
    /// Pods that failed.
    #[schemars(range(min = 0))]
    pub failed: Option<i32>,
}

/// What was last said of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PodGroupCondition {
    /// Unschedulable, Scheduled.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// True, False.
    pub status: Option<String>,
    /// The session that said it.
    #[serde(rename = "transitionID")]
    pub transition_id: Option<String>,
    /// Since when.
    pub last_transition_time: Option<Time>,
    /// Why, in a word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
}
