//! A pod as the controllers of jobs see it: whose it is and how it ended. They never read its spec.

use evictd_pod::wire::{Metadata, PodPhase, null_is_default};
use serde::{Deserialize, Serialize};

/// The fields of a v1 Pod that the job controller reads.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskPod {
    /// Identity, labels, annotations, owners.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: TaskPodStatus,
}

/// `status` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskPodStatus {
    /// How far it is; empty before the API server has set it.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: PodPhase,
    /// Its containers that were started.
    #[serde(deserialize_with = "null_is_default")]
    pub container_statuses: Vec<TaskContainer>,
    /// Its init containers that were started.
    #[serde(deserialize_with = "null_is_default")]
    pub init_container_statuses: Vec<TaskContainer>,
}

/// Status of a container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TaskContainer {
    /// Whether it is ready.
    #[serde(deserialize_with = "null_is_default")]
    pub ready: bool,
    /// How often it was restarted.
    #[serde(deserialize_with = "null_is_default")]
    pub restart_count: i32,
    /// Its current state.
    #[serde(deserialize_with = "null_is_default")]
    pub state: TaskContainerState,
}

/// The state of a container; only its termination is read.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct TaskContainerState {
    /// How it ended.
    pub terminated: Option<Terminated>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Terminated {
    /// The exit code.
    #[serde(deserialize_with = "null_is_default")]
    pub exit_code: i32,
}
