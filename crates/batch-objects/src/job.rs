//! A job with its tasks and policies (S6-002 to S6-006).

use super::schema::{Anything, LABEL, ObjectMeta, SUBDOMAIN, Time};
use super::{JobPhase, OpenEnum};
use evictd_pod::wire::{Metadata, null_is_default};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A batch.volcano.sh/v1alpha1 `Job` (S6-001): pods of one or more tasks, and the actions that events of them cause.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Job {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: JobStatus,
}

/// The desired state of a job (S6-002, S6-003).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobSpec {
    /// The scheduler of the pods.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 63))]
    pub scheduler_name: String,
    /// The size of the gang: so many pods start together, or none starts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_available: i32,
    /// The job is completed once so many pods have succeeded.
    #[schemars(range(min = 1))]
    pub min_success: Option<i32>,
    /// Volumes that every container mounts.
    #[serde(deserialize_with = "null_is_default")]
    pub volumes: Vec<VolumeSpec>,
    /// The tasks: pods by template.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(min = 1))]
    pub tasks: Vec<TaskSpec>,
    /// Policies for events. The first one that matches an event counts.
    #[serde(deserialize_with = "null_is_default")]
    pub policies: Vec<LifecyclePolicy>,
    /// Plugins of the job controller, with their arguments.
    #[serde(deserialize_with = "null_is_default")]
    pub plugins: BTreeMap<String, Option<Vec<String>>>,
    /// The expected running time, such as 1h30m.
    pub running_estimate: Option<String>,
    /// The queue of the job.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN), extend("x-default" = "default"))]
    pub queue: String,
    /// The job fails after so many restarts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0), extend("x-default" = 3))]
    pub max_retry: i32,
    /// The job is deleted so many seconds after its end.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The priority class of the job.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253), regex(pattern = SUBDOMAIN))]
    pub priority_class_name: String,
    /// How close to each other the pods have to be in the network.
    pub network_topology: Option<NetworkTopology>,
}

/// A volume of a job.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["mountPath"]))]
pub struct VolumeSpec {
    /// The path in every container.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(min = 1), regex(pattern = "^[^:]+$"))]
    pub mount_path: String,
    /// The name of an existing claim.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253))]
    pub volume_claim_name: String,
    /// The spec of a claim that the job controller creates.
    #[schemars(with = "Option<Anything>")]
    pub volume_claim: Option<Value>,
}

/// A task: pods of one template.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskSpec {
    /// The name of the task within the job.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 63), regex(pattern = LABEL))]
    pub name: String,
    /// The number of pods.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub replicas: i32,
    /// The number of pods that the gang needs. If absent, it needs all of them.
    #[schemars(range(min = 0))]
    pub min_available: Option<i32>,
    /// Metadata and spec of the pods.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Anything")]
    pub template: Value,
    /// Policies for events of these pods. They come before the policies of the job.
    #[serde(deserialize_with = "null_is_default")]
    pub policies: Vec<LifecyclePolicy>,
    /// How close to each other the CPUs and devices of a pod have to be.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("enum" = ["none", "best-effort", "restricted", "single-numa-node"]))]
    pub topology_policy: String,
    /// The task fails after so many restarts of its containers; -1 means never.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub max_retry: i32,
    /// Tasks that have to be ready before this one starts.
    pub depends_on: Option<DependsOn>,
    /// Partitions of the task, which restart as a whole.
    pub partition_policy: Option<PartitionPolicy>,
}

/// Tasks that have to be ready first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct DependsOn {
    /// Names of tasks of the same job.
    #[serde(deserialize_with = "null_is_default")]
    pub name: Vec<String>,
    /// Whether `any` or `all` of them have to be ready; `all` if absent.
    #[serde(deserialize_with = "null_is_default")]
    pub iteration: String,
}

/// Partitions of a task, which restart as a whole.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["totalPartitions", "partitionSize"]))]
pub struct PartitionPolicy {
    /// The number of partitions.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 1))]
    pub total_partitions: i32,
    /// The number of pods of a partition.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 1))]
    pub partition_size: i32,
    /// The number of partitions that the gang needs.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0), extend("x-default" = 0))]
    pub min_partitions: i32,
    /// How close to each other the pods of a partition have to be in the network.
    pub network_topology: Option<NetworkTopology>,
}

/// How close to each other pods have to be in the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct NetworkTopology {
    /// `hard`, or `soft` for a preference.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("enum" = ["hard", "soft"], "x-default" = "hard"))]
    pub mode: String,
    /// The highest tier that the pods may span, as a number.
    #[schemars(with = "Option<i64>", range(min = 0))]
    pub highest_tier_allowed: Option<i32>,
    /// The highest tier by its name. Only one of the two is set.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(max = 253))]
    pub highest_tier_name: String,
}

/// The action on an event (S6-004).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct LifecyclePolicy {
    /// The action: `AbortJob`, `RestartJob`, `RestartTask`, `RestartPod`, `RestartPartition`, `TerminateJob`,
    /// `CompleteJob`, `ResumeJob`.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The event.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "PolicyEvent")]
    pub event: String,
    /// More events.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "Vec<PolicyEvent>")]
    pub events: Vec<String>,
    /// The exit code of the first container, in place of events.
    pub exit_code: Option<i32>,
    /// The delay of the action, such as 10m.
    pub timeout: Option<String>,
}

/// An event of a policy. Admission refuses the events that only controllers use.
#[derive(JsonSchema)]
#[schemars(transparent, extend("enum" = [
    "*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync", "CommandIssued",
    "JobUpdated", "TaskFailed",
]))]
#[expect(
    dead_code,
    reason = "read as a text, because the machine has more events"
)]
struct PolicyEvent(String);

/// The observed state of a job (S6-005).
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobStatus {
    /// The phase, and its reason.
    #[serde(deserialize_with = "null_is_default")]
    pub state: JobState,
    /// `spec.minAvailable` as the controller last saw it.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub min_available: i32,
    /// Numbers of pods by task and phase.
    #[serde(deserialize_with = "null_is_default")]
    pub task_status_count: BTreeMap<String, TaskState>,
    /// The number of pending pods.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub pending: i32,
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
    /// The number of pods that are being deleted.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub terminating: i32,
    /// The number of pods in an unknown phase.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub unknown: i32,
    /// Counts how often all pods were killed. Pods of an earlier version no longer count.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub version: i32,
    /// The number of restarts.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(range(min = 0))]
    pub retry_count: i32,
    /// The running time, such as 1h30m.
    pub running_duration: Option<String>,
    /// Objects that plugins created for the job. Absent until the plugins have run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controlled_resources: Option<BTreeMap<String, String>>,
    /// The phases of the job so far.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<JobCondition>,
}

/// The phase of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobState {
    /// The phase (S6-006).
    #[serde(deserialize_with = "null_is_default")]
    pub phase: OpenEnum<JobPhase>,
    /// The reason in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// The reason in a sentence.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
    /// When the job entered the phase.
    #[schemars(with = "Option<Time>")]
    pub last_transition_time: Option<Timestamp>,
}

/// Numbers of pods of a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct TaskState {
    /// The number of pods by phase.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: BTreeMap<String, i32>,
}

/// A phase that the job was in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["status"]))]
pub struct JobCondition {
    /// The phase.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "String")]
    pub status: OpenEnum<JobPhase>,
    /// When the job entered the phase.
    #[schemars(with = "Option<Time>")]
    pub last_transition_time: Option<Timestamp>,
}
