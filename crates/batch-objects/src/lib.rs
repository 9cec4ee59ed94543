//! Objects of batch.volcano.sh, scheduling.volcano.sh and bus.volcano.sh. The definitions of the custom resources are
//! generated from these types, with all fields, defaults and limits.
//!
//! A field that no program reads is not stored where that would cost memory. Unknown fields are skipped and `null` counts as
//! absent. Objects are changed by patches, so that no field is lost.
//!
//! ```
//! use evictd_batch_objects::{Job, JobPhase};
//!
//! let job: Job = serde_json::from_value(serde_json::json!({
//!     "metadata": {"name": "train"},
//!     "spec": {"minAvailable": 2, "tasks": [{"name": "worker", "replicas": 3}]},
//!     "status": {"state": {"phase": "Running"}},
//! }))?;
//! assert_eq!(job.spec.tasks[0].replicas, 3);
//! assert_eq!(job.status.state.phase, JobPhase::Running);
//! # Ok::<(), serde_json::Error>(())
//! ```
#![forbid(unsafe_code)]

pub mod bus;
mod command;
mod compat;
mod further;
mod job;
mod open_enum;
mod phase;
mod pod_group;
mod queue;
pub mod schema;
mod task_pod;
mod usage;
mod workload;
pub mod written;

pub use command::Command;
pub use compat::{Compat, Difference};
pub use further::{NodeMetrics, Numatopology, ResourceQuota};
pub use job::{
    DependsOn, Job, JobCondition, JobSpec, JobState, JobStatus, LifecyclePolicy, NetworkTopology,
    PartitionPolicy, TaskSpec, TaskState, VolumeSpec,
};
pub use open_enum::{KnownValues, OpenEnum};
pub use phase::{JobPhase, PodGroupConditionType, PodGroupPhase, QueueState};
pub use pod_group::{
    BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE, GROUP_NAME, IN_STAGES, PodGroup,
    PodGroupCondition, PodGroupSpec, PodGroupStatus, TASK_SPEC,
};
pub use queue::{
    Affinity, Cluster, Guarantee, NodeGroups, Queue, QueueReservation, QueueSpec, QueueStatus,
};
pub use task_pod::{TaskContainer, TaskContainerState, TaskPod, TaskPodStatus, Terminated};
pub use usage::{pod_usage, times};
pub use workload::{QUEUE_NAME, Workload, queue_of};
