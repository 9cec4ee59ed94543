//! The objects of Kubernetes and Volcano, and the fields that sessions read.

use crate::session::extender_calls::ExtenderCalls;
use crate::session::snapshot::task::{COOLDOWN, MARKS, Status};
use evictd_batch_objects::{
    GROUP_NAME, NodeMetrics, Numatopology, PodGroup, QUEUE_NAME, Queue, ResourceQuota, TASK_SPEC,
    Workload,
};
use evictd_hyper_nodes::HyperNode;
use evictd_pod::resources::PODS;
use evictd_pod::wire::{Metadata, Pod, PodDisruptionBudget, PodPhase, PriorityClass, ResourceList};
use evictd_pod::{Counted, Quantity, Requests, TooManyResources, resources};
use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A priority in place of the pod's own (S6-124).
pub(crate) const TASK_PRIORITY: &str = "volcano.sh/task-priority";
/// Whether a pod may be a victim (S6-116).
pub(crate) const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// The queue above all others.
pub(crate) const ROOT: &str = "root";
pub(crate) const HIERARCHY: &str = "volcano.sh/hierarchy";
/// The zones of nodes that a pod may use, and the zone of a node.
pub(crate) const ZONE: &str = "volcano.sh/revocable-zone";
/// The limits of a queue in groups of nodes.
pub(crate) const GROUP_LIMITS: &str = "volcano.sh/nodegroup-resource-limits";
pub(crate) const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";

/// Whether a session asks for this annotation of a pod.
pub fn reads_annotation(key: &str) -> bool {
    [
        GROUP_NAME,
        TASK_SPEC,
        TASK_PRIORITY,
        PREEMPTABLE,
        QUEUE_NAME,
        PodGroup::MIN_MEMBER,
        COOLDOWN,
        ZONE,
    ]
    .contains(&key)
        || MARKS.contains(&key)
}

/// The objects of a cluster.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Objects {
    /// `volcano-scheduler.conf`.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub conf: String,
    /// Nodes.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub nodes: Vec<evictd_pod::Node>,
    /// Pods, also those of other schedulers.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub pods: Vec<Pod>,
    /// Pod groups.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub pod_groups: Vec<PodGroup>,
    /// Kubernetes' own groups, `scheduling.k8s.io/v1beta1`.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub upstream_pod_groups: Vec<evictd_pod::wire::PodGroup>,
    /// The workloads of such groups.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub workloads: Vec<Workload>,
    /// The `ReplicaSets` and `StatefulSets` of bare pods: their annotations count.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub owners: Vec<evictd_pod::wire::Workload>,
    /// Queues.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub queues: Vec<Queue>,
    /// Priority classes.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub priority_classes: Vec<PriorityClass>,
    /// Groups of near nodes, in the order in which they came.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub hyper_nodes: Vec<HyperNode>,
    /// The time of the session; plugins that read a clock see a fixed time without it.
    pub now: Option<Timestamp>,
    /// Quotas of namespaces.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub resource_quotas: Vec<ResourceQuota>,
    /// Disruption budgets.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub pod_disruption_budgets: Vec<PodDisruptionBudget>,
    /// By node its measured use.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub node_metrics: BTreeMap<String, NodeMetrics>,
    /// The processors of nodes.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub numatopologies: Vec<Numatopology>,
}

/// The scheduler's name, and the queue of jobs that name none (S6-141).
#[derive(Debug, Clone)]
pub struct Setting {
    /// `schedulerName` of the pods.
    pub scheduler: String,
    /// The queue of jobs that name none.
    pub default_queue: String,
    /// Whether a pod of no group is a job of its own, as [`Difference::BarePods`](evictd_batch_objects::Difference) says.
    pub plain_pods: bool,
    /// Sends the calls of plugin `extender`. Without it the plugin is left out.
    pub extender: Option<Arc<dyn ExtenderCalls>>,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            scheduler: "volcano".to_owned(),
            default_queue: "default".to_owned(),
            plain_pods: false,
            extender: None,
        }
    }
}

pub(crate) fn key(metadata: &Metadata) -> Arc<str> {
    metadata.full_name().into()
}

/// As far as a pod is (S6-090).
pub(crate) fn status_of(pod: &Pod) -> Status {
    let deleted = pod.metadata.deletion_timestamp.is_some();
    match pod.status.phase {
        PodPhase::Running | PodPhase::Pending if deleted => Status::Releasing,
        PodPhase::Running => Status::Running,
        PodPhase::Pending if pod.spec.node_name.is_empty() => Status::Pending,
        PodPhase::Pending => Status::Bound,
        PodPhase::Succeeded => Status::Succeeded,
        PodPhase::Failed => Status::Failed,
        _ => Status::Unknown,
    }
}

/// A boolean as Go reads it; anything else is false.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// A pod's request, with one `pods` for itself. A pending pod with too many resource names gets no node; only its cpu
/// and memory are counted, so that sessions do not compare the rest.
pub(crate) fn request_of(pod: &Pod, status: Status) -> ResourceList {
    let requests = Requests::of(pod, Counted::Scheduled);
    let each = requests.each();
    let refused = status == Status::Pending && TooManyResources::check(each.len()).is_err();
    let counted = each
        .into_iter()
        .filter(|(name, _)| !refused || matches!(*name, resources::CPU | resources::MEMORY));
    counted.chain([(PODS, Quantity::count(1))]).collect()
}

/// Whether a pod is one that the cluster itself needs (S6-125).
pub(crate) fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.priority_class_name.as_str();
    matches!(class, "system-cluster-critical" | "system-node-critical")
        || pod.metadata.namespace_or_default() == "kube-system"
}

/// A list of amounts as an object shows it.
pub(crate) fn quantity(name: &str, amount: f64) -> Quantity {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "amounts came as whole numbers"
    )]
    let whole = amount as i64;
    match name {
        resources::MEMORY => Quantity::bytes(whole),
        PODS => Quantity::count(whole),
        _ => Quantity::milli(whole),
    }
}
