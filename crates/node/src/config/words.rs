//! The settings that are one of a few words.

use serde::{Deserialize, Serialize};

/// Which figure is taken for the memory that is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryAvailable {
    /// The kernel's own estimate, `MemAvailable`.
    MemAvailable,
    /// Capacity less working set, as the kubelet counts it.
    WorkingSet,
}

/// Where the pods come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodsSource {
    /// The richest source that answers at start.
    Auto,
    /// The API server.
    Kubernetes,
    /// The kubelet's `/pods`.
    Kubelet,
    /// A directory of manifests.
    Manifests,
    /// The container runtime.
    Cri,
}

/// Where the usage of each pod comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UsageSource {
    /// The richest source that answers at start.
    Auto,
    /// The pods' cgroups and directories.
    Cgroup,
    /// The kubelet's `/stats/summary`.
    Summary,
    /// The container runtime.
    Cri,
}

/// How a pod is made to leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvictMethod {
    /// The best one that works here.
    Auto,
    /// Its processes are ended in its cgroup.
    Cgroup,
    /// Its object is deleted.
    Delete,
    /// The eviction API is asked.
    Eviction,
    /// The container runtime stops its sandbox.
    Cri,
}

/// When the API server is told of a hard eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tell {
    /// The kill waits for no answer.
    Together,
    /// The kill waits a little for the answer.
    First,
}

/// What is done about a new pod that this node should not take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Admission {
    /// Nothing; pods are not looked at.
    Off,
    /// It is reported and let in.
    #[default]
    Report,
    /// It is not let in; where pods come from manifests, others go for a critical one.
    Reject,
}

/// Which node conditions are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConditionTypes {
    /// Ours, beside the kubelet's.
    Own,
    /// The kubelet's own names, for a node whose kubelet does not evict.
    Standard,
}

/// What a soft threshold does where the polite way of evicting is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SoftTierFallback {
    /// Asks again until it is let, or until a hard threshold is crossed.
    Wait,
    /// Ends the pod here, with the soft threshold's grace.
    Evict,
}

/// What becomes of pods that have a cgroup here and that nobody lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownPods {
    /// They are never chosen.
    Spare,
    /// They are ranked by what can be seen of them.
    Rank,
}

/// What is held to its share of the node (S1-012); only `pods` matters to eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Enforcement {
    /// Nothing.
    None,
    /// The pods' cgroup.
    Pods,
    /// The system's cgroup.
    SystemReserved,
    /// The kubelet's and runtime's cgroup.
    KubeReserved,
    /// The system's cgroup, CPU only.
    SystemReservedCompressible,
    /// The kubelet's and runtime's cgroup, CPU only.
    KubeReservedCompressible,
}
