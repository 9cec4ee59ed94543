//! The outcome of a session, as it is printed and as a shell carries it out.

use super::eviction_kind::EvictionKind;
use super::pod_id::PodId;
use super::snapshot::Job;
use super::snapshot::task::Task;
use evictd_batch_objects::{PodGroupCondition, PodGroupStatus};
use evictd_placement::NodeId;
use evictd_reconcile::Tone;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// An amount: millicores, bytes, a number of pods, or thousandths of anything else.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Amount(pub f64);

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // A double of this size is exact, and printed as a whole number.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        if self.0.abs() > EXACT * EXACT {
            return serializer.serialize_str("unlimited");
        }
        if self.0.fract() == 0.0 && self.0.abs() < EXACT {
            #[expect(
                clippy::cast_possible_truncation,
                reason = "it is whole and small enough"
            )]
            return serializer.serialize_i64(self.0 as i64);
        }
        serializer.serialize_f64(self.0)
    }
}

/// Amounts by the name of the resource.
pub type Amounts = BTreeMap<String, Amount>;

/// The outcome of a session. Jobs and pods are `namespace/name`.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The nodes that it looked at, by name.
    pub session_nodes: Vec<String>,
    /// The jobs that it looked at.
    pub session_jobs: Vec<String>,
    /// The jobs that were not considered, and why.
    pub invalid_jobs: BTreeMap<String, Refused>,
    /// Of each queue its jobs in their order at the beginning.
    pub job_order_at_open: BTreeMap<String, Vec<String>>,
    /// The queues that have jobs, in their order at the beginning.
    pub queue_order_at_open: Vec<String>,
    /// Queues' shares at the beginning, if a plugin shares by queue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues_at_open: Option<BTreeMap<String, QueueOutcome>>,
    /// The tree of queues at the beginning, if plugin capacity uses one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue_tree_at_open: Option<BTreeMap<String, QueueTreeOutcome>>,
    /// The groups of near nodes, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_nodes_at_open: Option<BTreeMap<String, HyperNodeOutcome>>,
    /// Whether jobs can be placed by them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hyper_nodes_ready: Option<bool>,
    /// The mistakes in the tree of `HyperNodes`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cache_errors: Vec<String>,
    /// Of each job with a network topology the group of its placed pods, at the beginning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_hyper_nodes_at_open: Option<BTreeMap<String, JobGroupOutcome>>,
    /// The same at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_hyper_nodes: Option<BTreeMap<String, JobGroupOutcome>>,
    /// Jobs' shares at the beginning, if drf is loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_shares_at_open: Option<BTreeMap<String, JobShareOutcome>>,
    /// Queues' shares after the last action.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queues_after: Option<BTreeMap<String, QueueOutcome>>,
    /// Pods that are bound, with their nodes.
    pub binds: BTreeMap<String, String>,
    /// The same by ids, for a shell that carries them out before the cluster changes.
    #[serde(skip)]
    pub bindings: Vec<(PodId, NodeId)>,
    /// The same without the nodes.
    pub bound: Vec<String>,
    /// Pods that are evicted.
    pub evicted: Vec<Eviction>,
    /// Pods that get a node after pending evictions.
    pub pipelined: BTreeMap<String, String>,
    /// Pods that hold room in this session and are not bound: `pod -> node`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allocated_not_bound: Vec<String>,
    /// Of each job the phase of its pod group.
    pub phases: BTreeMap<String, String>,
    /// The outcome of each job's pod group.
    pub pod_groups: BTreeMap<String, GroupOutcome>,
    /// The outcome of groups of `scheduling.k8s.io`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub upstream_pod_groups: BTreeMap<String, UpstreamOutcome>,
    /// The conditions of pods that were not placed.
    pub pod_conditions: BTreeMap<String, PodCondition>,
    /// The amounts of each queue's tasks, for its status.
    pub queue_allocated: BTreeMap<String, BTreeMap<String, String>>,
    /// The processors that pods get by plugin numa-aware, if it is loaded and nodes report theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numa_assigned: Option<BTreeMap<String, NumaAssignment>>,
    /// Further events.
    pub events: Vec<Event>,
    /// When another session is due without further changes: the reservation ends then.
    #[serde(skip)]
    pub again_at: Option<Timestamp>,
    /// The free amounts of the nodes that are reserved for a job that waits. `None` if none are.
    #[serde(skip)]
    pub reserved_free: Option<Amounts>,
}

/// The processors of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NumaAssignment {
    /// Its node.
    pub node: String,
    /// Their numbers, like `0,2-4`; empty if its containers ask for no whole processors.
    pub cpu: String,
}

/// Why a job is not considered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// For people.
    pub message: String,
    /// In a word.
    pub reason: String,
}

/// A queue's share.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueOutcome {
    /// The amounts that its tasks hold.
    pub allocated: Amounts,
    /// The deserved amounts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<Amounts>,
    /// The amounts that its jobs hold beyond their minResources.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elastic: Option<Amounts>,
    /// The amounts promised to enqueued jobs.
    pub inqueue: Amounts,
    /// The most that it can have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub real_capability: Option<Amounts>,
    /// The amounts that its tasks hold or wait for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Amounts>,
    /// The largest part of its deserved share that is allocated.
    pub share: f64,
}

/// A queue's place in the tree of queues.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct QueueTreeOutcome {
    /// The queues above it, the root first.
    pub ancestors: Vec<String>,
    /// Its capability, with the inherited limits.
    pub capability: Amounts,
    /// The queues below it.
    pub children: Vec<String>,
    /// Its guarantee; that of the root is the sum of its children's.
    pub guarantee: Amounts,
}

/// A group of near nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct HyperNodeOutcome {
    /// The groups that are its members.
    pub children: Vec<String>,
    /// Its nodes that exist.
    pub nodes: Vec<String>,
    /// The group that it is in.
    pub parent: String,
    /// Its tier.
    pub tier: i32,
}

/// The groups of the placed pods of a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobGroupOutcome {
    /// That of all of them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub job: String,
    /// Those of its parts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sub_jobs: BTreeMap<String, String>,
}

/// A job's share.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobShareOutcome {
    /// The resource of its dominant share; empty if it holds nothing.
    pub dominant_resource: String,
    /// That part.
    pub share: f64,
}

/// An evicted pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Eviction {
    /// `namespace/name`.
    pub pod: String,
    /// Which pods are evicted.
    pub reason: EvictionKind,
    /// The pod.
    #[serde(skip)]
    pub id: PodId,
}

/// The outcome of a pod group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GroupOutcome {
    /// By type and reason.
    #[serde(serialize_with = "conditions")]
    pub conditions: Vec<PodGroupCondition>,
    /// Pods that failed.
    pub failed: i32,
    /// Its phase.
    pub phase: String,
    /// Pods that run.
    pub running: i32,
    /// Pods that succeeded.
    pub succeeded: i32,
    /// How many tasks there are of each status.
    pub tasks: BTreeMap<String, i32>,
    /// Whether its status differs from the stored one.
    pub written: bool,
    /// The whole status as it is written; a condition without a time was said just now.
    #[serde(skip)]
    pub status: PodGroupStatus,
}

/// The outcome of a group of `scheduling.k8s.io`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum UpstreamOutcome {
    /// As many of its pods as it needs at once have a node.
    Scheduled,
    /// They have not: why, for people.
    Unschedulable(String),
    /// The whole group is preempted.
    Preempted,
}

/// Writes conditions without session and time, so that equal sessions have equal outcomes.
fn conditions<S: Serializer>(
    conditions: &[PodGroupCondition],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    struct Shown<'a> {
        #[serde(rename = "type")]
        kind: &'a str,
        reason: &'a str,
        status: &'a str,
        message: &'a str,
    }
    serializer.collect_seq(conditions.iter().map(|condition| Shown {
        kind: condition.kind.as_str(),
        reason: &condition.reason,
        status: condition.status.as_str(),
        message: &condition.message,
    }))
}

/// The condition `PodScheduled` of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodCondition {
    /// For people.
    pub message: String,
    /// The node that is being freed for it; absent where none newly is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node_name: Option<String>,
    /// In a word.
    pub reason: String,
    /// `False`.
    pub status: String,
    /// The pod.
    #[serde(skip)]
    pub id: PodId,
}

/// The kind of object that an event is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// A pod.
    Pod,
    /// Volcano's pod group.
    PodGroup,
}

/// An event of an object. The event of a binding or an eviction is written with the call itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Event {
    /// The kind of the object.
    pub object_kind: ObjectKind,
    /// `namespace/name`.
    pub object: String,
    /// Its type.
    pub kind: Tone,
    /// In a word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// The pod, if the object is one.
    pub pod: Option<PodId>,
}

impl Event {
    /// The event that a pod could not be placed.
    pub(crate) fn failed_scheduling(task: &Task, message: String) -> Self {
        Self {
            object_kind: ObjectKind::Pod,
            object: task.key.to_string(),
            kind: Tone::Warning,
            reason: "FailedScheduling".to_owned(),
            message,
            pod: Some(task.id.clone()),
        }
    }

    /// An event of the pod group of a job.
    pub(crate) fn of_group(job: &Job, kind: Tone, reason: &str, message: String) -> Self {
        Self {
            object_kind: ObjectKind::PodGroup,
            object: job.key.to_string(),
            kind,
            reason: reason.to_owned(),
            message,
            pod: None,
        }
    }
}

impl Serialize for Event {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Self {
            object_kind,
            object,
            kind,
            reason,
            message,
            pod: _,
        } = self;
        serializer.collect_str(&format_args!(
            "{object_kind:?} {object} {} {reason} {message}",
            kind.as_str()
        ))
    }
}
