//! The other objects of a cluster that decide where pods may be: budgets, classes, namespaces and volumes.

use super::{
    Metadata, NodeSelector, ResourceList, ResourceRequirements, Selector, null_is_default,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A v1 Namespace.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Namespace {
    /// Name and labels.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
}

/// A policy/v1 `PodDisruptionBudget`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodDisruptionBudget {
    /// Identity.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: BudgetSpec,
    /// What is.
    #[serde(deserialize_with = "null_is_default")]
    pub status: BudgetStatus,
}

/// `spec` of a budget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetSpec {
    /// Which pods; absent or empty matches none where preemption asks (S3-021).
    pub selector: Option<Selector>,
    /// A count or a percentage; not to be given together with the next.
    pub min_available: Option<serde_json::Value>,
    /// A count or a percentage.
    pub max_unavailable: Option<serde_json::Value>,
}

/// `status` of a budget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus {
    /// How many more pods may go; absent where the budget's controller has not looked yet.
    pub disruptions_allowed: Option<i32>,
    /// Pods by name that are already accounted for (S4-006).
    #[serde(deserialize_with = "null_is_default")]
    pub disrupted_pods: BTreeMap<String, Option<Timestamp>>,
}

/// A scheduling.k8s.io/v1 `PriorityClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PriorityClass {
    /// Name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The priority it gives.
    #[serde(deserialize_with = "null_is_default")]
    pub value: i32,
    /// Whether pods without a class get it.
    #[serde(deserialize_with = "null_is_default")]
    pub global_default: bool,
    /// `PreemptLowerPriority` (default) or `Never`.
    #[serde(deserialize_with = "null_is_default")]
    pub preemption_policy: String,
}

/// A v1 `PersistentVolumeClaim`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolumeClaim {
    /// Identity.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ClaimSpec,
    /// What is.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ClaimStatus,
}

/// `spec` of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSpec {
    /// The volume it is bound to; empty while it is not.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_name: String,
    /// Where volumes for it come from; absent: the cluster's default, empty: none.
    pub storage_class_name: Option<String>,
    /// `ReadWriteOnce`, `ReadWriteOncePod`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    /// How much it wants.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: ResourceRequirements,
    /// Which volumes will do; absent: any.
    pub selector: Option<Selector>,
    /// `Filesystem` (default) or `Block`.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_mode: String,
}

/// `status` of a claim.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimStatus {
    /// `Pending`, `Bound`, `Lost`.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: String,
}

/// A v1 `PersistentVolume`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PersistentVolume {
    /// Name and labels, by which old volumes tell their zone.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What it is.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: VolumeSpec,
    /// What has become of it.
    #[serde(deserialize_with = "null_is_default")]
    pub status: VolumeStatus,
}

/// `spec` of a persistent volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpec {
    /// From which nodes it can be reached.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity: VolumeNodeAffinity,
    /// The claim it is promised to.
    pub claim_ref: Option<ObjectReference>,
    /// Its class.
    #[serde(deserialize_with = "null_is_default")]
    pub storage_class_name: String,
    /// How much it holds.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: ResourceList,
    /// `ReadWriteOnce`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    /// `Filesystem` (default) or `Block`.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_mode: String,
    /// The driver that attaches it.
    pub csi: Option<CsiVolume>,
}

/// `status` of a persistent volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released`, `Failed`.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: String,
}

/// `nodeAffinity` of a persistent volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeNodeAffinity {
    /// Absent: from everywhere.
    pub required: Option<NodeSelector>,
}

/// `csi` of a persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiVolume {
    /// The driver.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
    /// Its name for the volume.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_handle: String,
}

/// An object of a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}

/// A storage.k8s.io/v1 `StorageClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct StorageClass {
    /// Name and annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// Who makes the volumes.
    #[serde(deserialize_with = "null_is_default")]
    pub provisioner: String,
    /// `Immediate` (default) or `WaitForFirstConsumer`.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_binding_mode: String,
    /// Where volumes can be made: any of these; none: everywhere.
    #[serde(deserialize_with = "null_is_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Nodes with all of these labels; without any label, none.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorTerm {
    /// The labels.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_expressions: Vec<TopologySelectorLabel>,
}

/// A label and the values that it may have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorLabel {
    /// The label's key.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// Any of these.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// A storage.k8s.io/v1 `CSINode`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNode {
    /// The node's name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What it has.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CsiNodeSpec,
}

/// `spec` of a `CSINode`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeSpec {
    /// Its drivers.
    #[serde(deserialize_with = "null_is_default")]
    pub drivers: Vec<CsiDriver>,
}

/// A driver on one node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriver {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// How many volumes it attaches there.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: DriverLimit,
}

/// `allocatable` of a driver.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DriverLimit {
    /// Absent: no limit.
    pub count: Option<i64>,
}

/// `persistentVolumeClaim` of a pod's volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimReference {
    /// The claim's name, in the pod's namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub claim_name: String,
}

/// A disk that a pod names itself, which only one pod at a time, or only readers, may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamedDisk {
    /// Its name.
    #[serde(
        alias = "pdName",
        alias = "volumeID",
        alias = "iqn",
        alias = "image",
        deserialize_with = "null_is_default"
    )]
    pub name: String,
    /// The pool of an image.
    #[serde(deserialize_with = "null_is_default")]
    pub pool: String,
    /// The monitors of an image.
    #[serde(deserialize_with = "null_is_default")]
    pub monitors: Vec<String>,
    /// Whether it is only read.
    #[serde(deserialize_with = "null_is_default")]
    pub read_only: bool,
}
