//! A job: pods of several tasks that belong together, and its policies.

use evictd_pod::wire::{Metadata, null_is_default};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A batch.volcano.sh/v1alpha1 `Job` (S6-001).
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Job {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: JobStatus,
}

/// `spec` of a job (S6-002, S6-003).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// The scheduler of its pods.
    #[serde(deserialize_with = "null_is_default")]
    pub scheduler_name: String,
    /// So many pods start at once or none.
    #[serde(deserialize_with = "null_is_default")]
    pub min_available: i32,
    /// So many pods that succeeded make it complete.
    pub min_success: Option<i32>,
    /// Volumes mounted in every container.
    #[serde(deserialize_with = "null_is_default")]
    pub volumes: Vec<VolumeSpec>,
    /// Its tasks.
    #[serde(deserialize_with = "null_is_default")]
    pub tasks: Vec<TaskSpec>,
    /// The policies on events, in order of precedence.
    #[serde(deserialize_with = "null_is_default")]
    pub policies: Vec<LifecyclePolicy>,
    /// Plugins of the controller with their arguments.
    #[serde(deserialize_with = "null_is_default")]
    pub plugins: BTreeMap<String, Option<Vec<String>>>,
    /// How long it is expected to run, in Go's notation.
    pub running_estimate: Option<String>,
    /// The queue that it waits in.
    #[serde(deserialize_with = "null_is_default")]
    pub queue: String,
    /// It fails after so many restarts.
    #[serde(deserialize_with = "null_is_default")]
    pub max_retry: i32,
    /// How long it is kept after its end, in seconds.
    pub ttl_seconds_after_finished: Option<i32>,
    /// The class that gives its priority.
    #[serde(deserialize_with = "null_is_default")]
    pub priority_class_name: String,
    /// How near its pods have to be to each other.
    pub network_topology: Option<NetworkTopology>,
}

/// A volume of a job.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpec {
    /// Where it is mounted.
    #[serde(deserialize_with = "null_is_default")]
    pub mount_path: String,
    /// A claim that exists.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_claim_name: String,
    /// `spec` of a claim that is made.
    pub volume_claim: Option<Value>,
}

/// A task: pods of one template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskSpec {
    /// Its name within the job.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// So many pods.
    #[serde(deserialize_with = "null_is_default")]
    pub replicas: i32,
    /// So many of them are needed; absent means all.
    pub min_available: Option<i32>,
    /// `metadata` and `spec` of its pods, as they were written.
    #[serde(deserialize_with = "null_is_default")]
    pub template: Value,
    /// The policies for events of its pods, before the job's policies.
    #[serde(deserialize_with = "null_is_default")]
    pub policies: Vec<LifecyclePolicy>,
    /// `none`, `best-effort`, `restricted`, `single-numa-node`.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_policy: String,
    /// It fails after so many restarts of its containers; -1 means never.
    #[serde(deserialize_with = "null_is_default")]
    pub max_retry: i32,
    /// Tasks that have to be ready before.
    pub depends_on: Option<DependsOn>,
    /// Parts of the task that restart together.
    pub partition_policy: Option<PartitionPolicy>,
}

/// Tasks that have to be ready before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DependsOn {
    /// Names of tasks of the same job.
    #[serde(deserialize_with = "null_is_default")]
    pub name: Vec<String>,
    /// `any` or `all` (also if empty).
    #[serde(deserialize_with = "null_is_default")]
    pub iteration: String,
}

/// Parts of a task that restart together.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartitionPolicy {
    /// How many.
    #[serde(deserialize_with = "null_is_default")]
    pub total_partitions: i32,
    /// Pods of each.
    #[serde(deserialize_with = "null_is_default")]
    pub partition_size: i32,
    /// So many are needed.
    #[serde(deserialize_with = "null_is_default")]
    pub min_partitions: i32,
    /// How near its pods have to be to each other.
    pub network_topology: Option<NetworkTopology>,
}

/// How near pods have to be to each other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkTopology {
    /// `hard` or `soft`.
    #[serde(deserialize_with = "null_is_default")]
    pub mode: String,
    /// The highest tier that they may span, as a number.
    pub highest_tier_allowed: Option<i32>,
    /// The same by its name.
    #[serde(deserialize_with = "null_is_default")]
    pub highest_tier_name: String,
}

/// The action on an event (S6-004).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LifecyclePolicy {
    /// `RestartJob`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// `PodFailed`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub event: String,
    /// Several of them.
    #[serde(deserialize_with = "null_is_default")]
    pub events: Vec<String>,
    /// The exit code of the pod's first container.
    pub exit_code: Option<i32>,
    /// How long the action waits, in Go's notation.
    pub timeout: Option<String>,
}

/// `status` of a job (S6-005).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// The phase.
    #[serde(deserialize_with = "null_is_default")]
    pub state: JobState,
    /// `spec.minAvailable` as last seen.
    #[serde(deserialize_with = "null_is_default")]
    pub min_available: i32,
    /// Pods of each task by phase.
    #[serde(deserialize_with = "null_is_default")]
    pub task_status_count: BTreeMap<String, TaskState>,
    /// Pods that wait.
    #[serde(deserialize_with = "null_is_default")]
    pub pending: i32,
    /// Pods that run.
    #[serde(deserialize_with = "null_is_default")]
    pub running: i32,
    /// Pods that succeeded.
    #[serde(deserialize_with = "null_is_default")]
    pub succeeded: i32,
    /// Pods that failed.
    #[serde(deserialize_with = "null_is_default")]
    pub failed: i32,
    /// Pods that are being deleted.
    #[serde(deserialize_with = "null_is_default")]
    pub terminating: i32,
    /// Pods of which nothing is known.
    #[serde(deserialize_with = "null_is_default")]
    pub unknown: i32,
    /// Raised by each kill of all pods.
    #[serde(deserialize_with = "null_is_default")]
    pub version: i32,
    /// Restarts so far.
    #[serde(deserialize_with = "null_is_default")]
    pub retry_count: i32,
    /// How long it ran, in Go's notation.
    pub running_duration: Option<String>,
    /// Objects that were made for it; absent before the plugins had their turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controlled_resources: Option<BTreeMap<String, String>>,
    /// The phases it has been in.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<JobCondition>,
}

/// The phase of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobState {
    /// S6-006.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: String,
    /// Why, in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}

/// Pods of a task by phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TaskState {
    /// `Pending`, `Running`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub phase: BTreeMap<String, i32>,
}

/// A phase that a job has been in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCondition {
    /// The phase.
    #[serde(deserialize_with = "null_is_default")]
    pub status: String,
    /// Since when.
    pub last_transition_time: Option<Timestamp>,
}
