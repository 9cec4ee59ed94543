//! Groups of pods that are scheduled together.

use super::{Condition, Metadata, PodResourceClaim, Present, ResourceClaimStatus, null_is_default};
use serde::Deserialize;

/// The group of the API of groups.
pub const GROUPS_API: &str = "scheduling.k8s.io";

/// A scheduling.k8s.io/v1beta1 `PodGroup`, as Kubernetes 1.37 defines it.
pub type PodGroup = Group<GangPolicy>;

/// A scheduling.k8s.io/v1alpha3 `CompositePodGroup`: groups that are placed together, as Kubernetes 1.37 defines it (S7-110).
pub type CompositePodGroup = Group<CompositeGangPolicy>;

/// A group of pods, or of other groups. `Gang` says how many are placed at once.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound = "Gang: Default + Deserialize<'de>"
)]
pub struct Group<Gang> {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: GroupSpec<Gang>,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: PodGroupStatus,
}

/// `spec` of a group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(
    default,
    rename_all = "camelCase",
    bound = "Gang: Default + Deserialize<'de>"
)]
pub struct GroupSpec<Gang> {
    /// Whether its pods or groups are placed together or each by itself.
    #[serde(deserialize_with = "null_is_default")]
    pub scheduling_policy: GroupPolicy<Gang>,
    /// Constraints for all its pods together.
    #[serde(deserialize_with = "null_is_default")]
    pub scheduling_constraints: PodGroupConstraints,
    /// Whether its pods can be preempted one by one.
    #[serde(deserialize_with = "null_is_default")]
    pub disruption_mode: DisruptionMode,
    /// By which it is preempted and preempts; absent counts as 0. In a tree that of the root counts.
    pub priority: Option<i32>,
    /// The class that `priority` comes from.
    #[serde(deserialize_with = "null_is_default")]
    pub priority_class_name: String,
    /// The workload that it was made from.
    pub workload_ref: Option<WorkloadReference>,
    /// `PreemptLowerPriority` (default) or `Never`.
    #[serde(deserialize_with = "null_is_default")]
    pub preemption_policy: String,
    /// Name of the `CompositePodGroup` that it belongs to, in its namespace; empty if it belongs to none.
    #[serde(deserialize_with = "null_is_default")]
    pub parent_composite_pod_group_name: String,
    /// Claims on devices that its pods share. A pod uses one by an equal entry in its spec (S7-100).
    #[serde(deserialize_with = "null_is_default")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// How a group is scheduled. One of the two is there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct GroupPolicy<Gang> {
    /// Its pods or groups each by themselves.
    pub basic: Option<Present>,
    /// So many at once or none.
    pub gang: Option<Gang>,
}

/// So many pods at once or none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct GangPolicy {
    /// So many pods of the group have to be placed at once.
    pub min_count: i32,
}

/// So many groups at once or none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CompositeGangPolicy {
    /// So many of its groups have to be placed at once.
    pub min_group_count: i32,
}

/// The workload that a group was made from.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadReference {
    /// Name of the `Workload`, in the namespace of the group.
    #[serde(deserialize_with = "null_is_default")]
    pub workload_name: String,
}

/// The constraints for all pods of a group together.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodGroupConstraints {
    /// They must be on nodes with the same value of each of these labels.
    #[serde(deserialize_with = "null_is_default")]
    pub topology: Vec<TopologyKey>,
}

/// A label of nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct TopologyKey {
    /// Its key.
    pub key: String,
}

/// Whether the pods of a group can be preempted one by one, which is the default.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DisruptionMode {
    /// Only all together.
    pub all: Option<Present>,
}

/// `status` of a group.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodGroupStatus {
    /// Whether it was placed, and whether it is being preempted.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// The claims on devices that were made for it.
    #[serde(deserialize_with = "null_is_default")]
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
}
