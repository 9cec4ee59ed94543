//! The answer of a simulation of pods that are placed one after the other.

use serde::{Serialize, Serializer};
use serde_json::Value;
use std::collections::BTreeMap;

/// The results of the pods, by `namespace/name`.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SequenceOutcome {
    /// Every attempt, in order.
    pub attempts: Vec<AttemptOutcome>,
    /// The nodes of the placed pods.
    pub placed: BTreeMap<String, String>,
    /// The last messages of the other pods.
    pub unschedulable: BTreeMap<String, String>,
    /// Those that are tried no more, because their attempts end in errors or their bindings fail again and again.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<String>,
    /// The gated pods, with the reasons, which the answer leaves out.
    #[serde(serialize_with = "names")]
    pub gated: BTreeMap<String, String>,
    /// The claims on devices at the end.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, Value>,
    /// The status of pods about the claims for their extended resources.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extended_resource_claim_status: BTreeMap<String, Value>,
    /// The other pods that are not tried, with the reasons.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub not_tried: BTreeMap<String, String>,
    /// The pods that were preempted, in order.
    #[serde(skip)]
    pub preempted: Vec<PreemptedPod>,
    /// The objects that keep an unschedulable pod from every node, one line each. The answer shows them where a dump was read.
    #[serde(skip)]
    pub blockers: BTreeMap<String, Vec<String>>,
    /// How many more pods like these fit at the end.
    #[serde(skip)]
    pub more_fit: BTreeMap<String, usize>,
    /// Errors of objects that were left out.
    #[serde(skip)]
    pub warnings: Vec<String>,
    /// The URLs of the extenders, which a simulation does not ask.
    #[serde(skip)]
    pub extenders: Vec<String>,
    /// The usage of the nodes at the end.
    #[serde(skip)]
    pub nodes: Vec<NodeUse>,
}

/// The usage of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeUse {
    /// The name.
    pub name: String,
    /// The number of its pods.
    pub pods: usize,
    /// The requests of its pods and its allocatable CPU, in thousandths of a core.
    pub cpu: (i64, i64),
    /// The requests of its pods and its allocatable memory, in bytes.
    pub memory: (i64, i64),
}

fn names<S: Serializer>(pods: &BTreeMap<String, String>, to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(pods.keys())
}

/// A pod that was preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PreemptedPod {
    /// The pod, `namespace/name`.
    pub pod: String,
    /// Its node.
    pub node: String,
    /// The pod that it gave way to.
    pub preemptor: String,
    /// The budgets that its eviction counts against.
    pub budgets: Vec<String>,
    /// Whether its eviction violates one of them.
    pub violates: bool,
    /// Whether it is being deleted already. Then its end is awaited, and nothing is evicted.
    pub terminates: bool,
}

/// One attempt.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AttemptOutcome {
    /// The pod.
    pub pod: String,
    /// The number of feasible nodes; left out where claims on devices are shown and there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feasible_count: Option<usize>,
    /// These nodes, where there are devices.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub feasible: Vec<String>,
    /// Its claims on devices afterwards.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub claims: BTreeMap<String, Value>,
    /// Why it was not bound to the chosen node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bind_error: Option<String>,
    /// The writes of its binding, where pods do not wait in the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// The events of its binding, where pods do not wait in the queue.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<String>,
    /// How long its binding waited for devices.
    #[serde(skip_serializing_if = "is_zero")]
    pub waited_seconds: u64,
    /// The highest total score, if nodes were scored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub top_score: Option<i64>,
    /// The nodes with that score.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub top: Vec<String>,
    /// The chosen node: the first of these by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chosen: Option<String>,
    /// The message of its condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The plugins that rejected it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plugins: Vec<String>,
    /// The nominated node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated: Option<String>,
    /// The victims of its preemption.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// Pods that lost their nomination.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nominations_cleared: Vec<String>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
const fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}
