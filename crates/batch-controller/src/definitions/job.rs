//! A job: pods of several tasks that belong together (S6-002 to S6-006).

use super::{Anything, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Pods of several tasks that belong together, and what happens when some of them end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Job {
    /// The desired state.
    pub spec: Option<JobSpec>,
    /// The observed state.
    pub status: Option<JobStatus>,
}

/// The desired state.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobSpec {
    /// The scheduler of its pods.
    #[schemars(length(max = 63))]
    pub scheduler_name: Option<String>,
    /// So many pods start at once or none.
    #[schemars(range(min = 0))]
    pub min_available: Option<i32>,
    /// So many pods that succeeded make it complete.
    #[schemars(range(min = 1))]
    pub min_success: Option<i32>,
    /// Volumes mounted in every container.
    pub volumes: Option<Vec<VolumeSpec>>,
    /// Its tasks.
    #[schemars(length(min = 1))]
    pub tasks: Option<Vec<TaskSpec>>,
    /// What happens on an event; the first that fits counts.
    pub policies: Option<Vec<LifecyclePolicy>>,
    /// Plugins of the controller with their arguments.
    pub plugins: Option<BTreeMap<String, Vec<String>>>,
    /// How long it is expected to run: 1h30m.
    pub running_estimate: Option<String>,
    /// The queue that it waits in.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"),
        extend("default" = "default")
    )]
    pub queue: Option<String>,
    /// It fails after so many restarts.
    #[schemars(range(min = 0), extend("default" = 3))]
    pub max_retry: Option<i32>,
    /// How long it is kept after its end, in seconds.
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i32>,
    /// The class that gives its priority.
    #[schemars(
        length(max = 253),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
    )]
    pub priority_class_name: Option<String>,
    /// How near its pods have to be to each other.
    pub network_topology: Option<NetworkTopology>,
}

/// A volume of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct VolumeSpec {
    /// Where it is mounted.
    #[schemars(length(min = 1), regex(pattern = "^[^:]+$"))]
    pub mount_path: String,
    /// A claim that exists.
    #[schemars(length(max = 253))]
    pub volume_claim_name: Option<String>,
    /// The spec of a claim that is made.
    pub volume_claim: Option<Anything>,
}

/// Pods of one template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskSpec {
    /// Its name within the job.
    #[schemars(length(max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: Option<String>,
    /// So many pods.
    #[schemars(range(min = 0))]
    pub replicas: Option<i32>,
    /// So many of them are needed; absent means all.
    #[schemars(range(min = 0))]
    pub min_available: Option<i32>,
    /// Metadata and spec of its pods.
    pub template: Option<Anything>,
    /// What happens on an event of one of its pods, before the policies of the job.
    pub policies: Option<Vec<LifecyclePolicy>>,
    /// How near the CPUs and devices of a pod have to be to each other.
    #[schemars(extend("enum" = ["none", "best-effort", "restricted", "single-numa-node"]))]
    pub topology_policy: Option<String>,
    /// It fails after so many restarts of its containers.
    #[schemars(range(min = 0))]
    pub max_retry: Option<i32>,
    /// Tasks that have to be ready before.
    pub depends_on: Option<DependsOn>,
    /// Parts of it that restart together.
    pub partition_policy: Option<PartitionPolicy>,
}

/// Tasks that have to be ready before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DependsOn {
    /// Names of tasks of the same job.
    pub name: Option<Vec<String>>,
    /// Whether any of them or all of them.
    pub iteration: Option<String>,
}

/// Parts of a task that restart together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct PartitionPolicy {
    /// How many parts.
    #[schemars(range(min = 1))]
    pub total_partitions: i32,
    /// Pods of each part.
    #[schemars(range(min = 1))]
    pub partition_size: i32,
    /// How near the pods of a part have to be to each other.
    pub network_topology: Option<NetworkTopology>,
    /// So many parts are needed.
    #[schemars(range(min = 0), extend("default" = 0))]
    pub min_partitions: Option<i32>,
}

/// How near pods have to be to each other in the network.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct NetworkTopology {
    /// Whether without exception or where possible.
    #[schemars(extend("enum" = ["hard", "soft"], "default" = "hard"))]
    pub mode: Option<String>,
    /// The highest tier that they may span, as a number.
    #[schemars(range(min = 0))]
    pub highest_tier_allowed: Option<i64>,
    /// The same by its name; only one of the two is set.
    #[schemars(length(max = 253))]
    pub highest_tier_name: Option<String>,
}

/// What happens on an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LifecyclePolicy {
    /// What is done: `AbortJob`, `RestartJob`, `RestartTask`, `RestartPod`, `RestartPartition`, `TerminateJob`,
    /// `CompleteJob`, `ResumeJob`.
    pub action: Option<String>,
    /// The event.
    pub event: Option<Event>,
    /// Several events.
    pub events: Option<Vec<Event>>,
    /// The exit code of the first container; instead of events.
    pub exit_code: Option<i32>,
    /// How long the action waits: 10m.
    pub timeout: Option<String>,
}

/// An event of a policy. Those that only the controllers use are refused at admission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("enum" = [
    "*", "PodPending", "PodRunning", "PodFailed", "PodEvicted", "Unknown", "TaskCompleted", "OutOfSync", "CommandIssued",
    "JobUpdated", "TaskFailed",
]))]
pub struct Event(String);

/// The observed state.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobStatus {
    /// Where it is in its life.
    pub state: Option<JobState>,
    /// The minimum that the controller goes by.
    #[schemars(range(min = 0))]
    pub min_available: Option<i32>,
    /// Pods of each task by phase.
    pub task_status_count: Option<BTreeMap<String, TaskState>>,
    /// Pods that wait.
    #[schemars(range(min = 0))]
    pub pending: Option<i32>,
    /// Pods that run.
    #[schemars(range(min = 0))]
    pub running: Option<i32>,
    /// Pods that succeeded.
    #[schemars(range(min = 0))]
    pub succeeded: Option<i32>,
    /// Pods that failed.
    #[schemars(range(min = 0))]
    pub failed: Option<i32>,
    /// Pods that are being deleted.
    #[schemars(range(min = 0))]
    pub terminating: Option<i32>,
    /// Pods of which nothing is known.
    #[schemars(range(min = 0))]
    pub unknown: Option<i32>,
    /// Raised by each kill of all pods.
    #[schemars(range(min = 0))]
    pub version: Option<i32>,
    /// Restarts so far.
    #[schemars(range(min = 0))]
    pub retry_count: Option<i32>,
    /// How long it ran.
    pub running_duration: Option<String>,
    /// Objects that were made for it.
    pub controlled_resources: Option<BTreeMap<String, String>>,
    /// The phases it has been in.
    pub conditions: Option<Vec<JobCondition>>,
}

/// Where a job is in its life.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobState {
    /// The phase.
    #[schemars(extend("enum" = [
        "Pending", "Aborting", "Aborted", "Running", "Restarting", "Completing", "Completed", "Terminating", "Terminated", "Failed",
    ]))]
    pub phase: Option<String>,
    /// Why, in a word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
    /// Since when.
    pub last_transition_time: Option<Time>,
}

/// Pods of a task by phase.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct TaskState {
    /// How many are in each phase.
    pub phase: Option<BTreeMap<String, i32>>,
}

/// A phase that a job has been in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct JobCondition {
    /// The phase.
    pub status: String,
    /// Since when.
    pub last_transition_time: Option<Time>,
}
