//! The settings that are one of a few words.

use serde::{Deserialize, Serialize};

/// Which figure `memory.available` is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryAvailable {
    /// The kernel's own estimate, `MemAvailable`.
    MemAvailable,
    /// Capacity less working set, as the kubelet counts it.
    WorkingSet,
}

/// The source of the pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodsSource {
    /// The source that knows most of those that answer at start.
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

/// The source of usage figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UsageSource {
    /// The source that knows most of those that answer at start.
    Auto,
    /// The pods' cgroups and directories.
    Cgroup,
    /// The kubelet's `/stats/summary`.
    Summary,
    /// The container runtime.
    Cri,
}

/// How a pod is evicted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EvictMethod {
    /// The best method that works here.
    Auto,
    /// Its processes are terminated through its cgroup.
    Cgroup,
    /// Its object is deleted.
    Delete,
    /// The eviction API is called.
    Eviction,
    /// The container runtime stops its sandbox.
    Cri,
}

/// When dead containers and unused images are removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ImageGcMode {
    /// `Pressure` where pods come from a cluster, else `Off`.
    Auto,
    /// Never: pods are evicted at once.
    Off,
    /// When a threshold on a disk signal is met, before a pod is evicted.
    Pressure,
    /// Then, and in place of the kubelet's own image collection.
    Full,
}

/// The kinds of memory that are reclaimed before a soft memory threshold acts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryReclaim {
    /// Nothing.
    #[default]
    Off,
    /// Page cache of pods above their memory requests.
    Cold,
}

/// When the API server is informed of an eviction for a hard threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Tell {
    /// At the same time: the kill does not wait for the answer.
    Together,
    /// Before: the kill waits a short time for the answer.
    First,
}

/// The action on a new pod that should not be on this node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Admission {
    /// Nothing; pods are not checked.
    Off,
    /// It is reported and admitted.
    #[default]
    Report,
    /// It is rejected; if pods come from manifests, pods are preempted for a critical one.
    Reject,
}

/// Which node conditions are set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ConditionTypes {
    /// evictd's own types, next to the kubelet's.
    Own,
    /// The kubelet's own names, for a node whose kubelet does not evict.
    Standard,
}

/// The action of a soft threshold if the eviction API refuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum SoftTierFallback {
    /// Retries until it is allowed, or until a hard threshold is crossed.
    Wait,
    /// Terminates the pod here, with the soft threshold's grace period.
    Evict,
}

/// The action on pods that have a cgroup here but that no source lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownPods {
    /// They are never chosen.
    Spare,
    /// They are ranked by the usage of their cgroups.
    Rank,
}

/// The action if the source of the pods does not report their priorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PriorityUnknown {
    /// Evictions are decided and reported, but not carried out.
    DryRun,
    /// Every pod counts as having priority 0.
    Accept,
}

/// Which cgroups are limited to their share of the node (S1-012); only `pods` matters for eviction.
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
