//! The other objects of a cluster that decide where pods may run: budgets, classes, namespaces and volumes.

use super::{
    Metadata, NodeSelector, ResourceList, ResourceRequirements, Selector, TextMap, null_is_default,
};
use crate::Quantity;
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
    /// Namespace, name and labels.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: BudgetSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: BudgetStatus,
}

/// `spec` of a budget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetSpec {
    /// The pods that it protects; for preemption an absent or empty selector matches none (S3-021).
    pub selector: Option<Selector>,
    /// How many must be available: a count or a percentage. Excludes `maxUnavailable`.
    pub min_available: Option<serde_json::Value>,
    /// How many may be unavailable: a count or a percentage.
    pub max_unavailable: Option<serde_json::Value>,
}

/// `status` of a budget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct BudgetStatus {
    /// How many more pods may be disrupted now; absent until the budget's controller has computed it.
    pub disruptions_allowed: Option<i32>,
    /// Names of pods whose eviction is already counted (S4-006).
    #[serde(deserialize_with = "null_is_default")]
    pub disrupted_pods: BTreeMap<String, Option<Timestamp>>,
}

/// A scheduling.k8s.io/v1 `PriorityClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PriorityClass {
    /// Pods refer to the class by its name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The priority of its pods.
    #[serde(deserialize_with = "null_is_default")]
    pub value: i32,
    /// Whether pods that name no class get this one.
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
    /// Namespace, name and labels.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ClaimSpec,
    /// The observed state.
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
    /// Name of the storage class; absent means the default of the cluster, empty means none.
    pub storage_class_name: Option<String>,
    /// `ReadWriteOnce`, `ReadWriteOncePod`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    /// The requested capacity.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: ResourceRequirements,
    /// The volumes that may be bound, by their labels; absent means any.
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
    /// Name and labels; old volumes have their zone in a label.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The storage behind it, and where it can be reached.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: VolumeSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: VolumeStatus,
}

/// `spec` of a persistent volume.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeSpec {
    /// The nodes from which it can be reached.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity: VolumeNodeAffinity,
    /// The claim that it is bound to or reserved for.
    pub claim_ref: Option<ObjectReference>,
    /// Name of the storage class; empty for none.
    #[serde(deserialize_with = "null_is_default")]
    pub storage_class_name: String,
    /// Its capacity.
    #[serde(deserialize_with = "null_is_default")]
    pub capacity: ResourceList,
    /// `ReadWriteOnce`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub access_modes: Vec<String>,
    /// `Filesystem` (default) or `Block`.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_mode: String,
    /// The CSI driver that attaches it, if one does.
    pub csi: Option<CsiVolume>,
    /// A disk that a CSI driver attaches in place of Kubernetes, which did so itself once; so with those that follow.
    pub gce_persistent_disk: Option<Box<NamedDisk>>,
    /// A disk by its id.
    pub aws_elastic_block_store: Option<Box<NamedDisk>>,
    /// A disk by its address.
    pub azure_disk: Option<Box<NamedDisk>>,
    /// A disk by its id.
    pub cinder: Option<Box<NamedDisk>>,
    /// A volume by its id.
    pub portworx_volume: Option<Box<NamedDisk>>,
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
    /// If absent, it can be reached from all nodes.
    pub required: Option<NodeSelector>,
}

/// `csi` of a persistent volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiVolume {
    /// Name of the CSI driver.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
    /// The driver's name for the volume.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_handle: String,
}

/// A reference to an object in a namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ObjectReference {
    /// Namespace of the object that is referred to.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// Name of the object that is referred to.
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
    /// Name of the program that creates the volumes.
    #[serde(deserialize_with = "null_is_default")]
    pub provisioner: String,
    /// `Immediate` (default) or `WaitForFirstConsumer`.
    #[serde(deserialize_with = "null_is_default")]
    pub volume_binding_mode: String,
    /// The nodes for which volumes can be created: those of any of these terms; without terms, all.
    #[serde(deserialize_with = "null_is_default")]
    pub allowed_topologies: Vec<TopologySelectorTerm>,
}

/// Selects the nodes that have all of these labels; without labels it selects none.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorTerm {
    /// Labels that the node must have, all of them.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_expressions: Vec<TopologySelectorLabel>,
}

/// A label and the values that it may have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySelectorLabel {
    /// Key of the node's label.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// The values of which the label must have one.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// A storage.k8s.io/v1 `CSINode`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNode {
    /// Its name is the node's.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The drivers of the node.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CsiNodeSpec,
}

/// `spec` of a `CSINode`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiNodeSpec {
    /// The CSI drivers that are registered on the node.
    #[serde(deserialize_with = "null_is_default")]
    pub drivers: Vec<CsiDriver>,
}

/// A driver on one node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriver {
    /// Name of the driver, as volumes name it.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// How many volumes it can attach there.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: DriverLimit,
}

/// `allocatable` of a driver.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DriverLimit {
    /// The number of volumes; absent means no limit.
    pub count: Option<i64>,
}

/// A storage.k8s.io/v1 `CSIDriver`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverObject {
    /// Its name is the one that volumes and storage classes use.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The driver's features.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CsiDriverSpec,
}

/// `spec` of a `CSIDriver`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiDriverSpec {
    /// Whether volumes are only made where a `CSIStorageCapacity` says that there is room.
    #[serde(deserialize_with = "null_is_default")]
    pub storage_capacity: bool,
    /// Whether pods with its volumes are kept off nodes where it is not registered.
    #[serde(deserialize_with = "null_is_default")]
    pub prevent_pod_scheduling_if_missing: bool,
}

/// A storage.k8s.io/v1 `CSIStorageCapacity`: how much room a storage class has for some nodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiStorageCapacity {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The storage class.
    #[serde(deserialize_with = "null_is_default")]
    pub storage_class_name: String,
    /// The nodes, by their labels; absent means none.
    pub node_topology: Option<Selector>,
    /// The room that is left.
    pub capacity: Option<Quantity>,
    /// The largest volume that can be made.
    pub maximum_volume_size: Option<Quantity>,
}

/// A storage.k8s.io/v1 `VolumeAttachment`: a volume that is attached to a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachment {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The volume and its node.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: VolumeAttachmentSpec,
}

/// `spec` of a [`VolumeAttachment`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSpec {
    /// The CSI driver.
    #[serde(deserialize_with = "null_is_default")]
    pub attacher: String,
    /// The node.
    #[serde(deserialize_with = "null_is_default")]
    pub node_name: String,
    /// The volume.
    #[serde(deserialize_with = "null_is_default")]
    pub source: VolumeAttachmentSource,
}

/// `spec.source` of a [`VolumeAttachment`].
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct VolumeAttachmentSource {
    /// The persistent volume; empty for one that a pod names itself.
    #[serde(deserialize_with = "null_is_default")]
    pub persistent_volume_name: String,
}

/// A v1 `Service`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Service {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ServiceSpec,
}

/// `spec` of a service, and of a `ReplicationController`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ServiceSpec {
    /// Labels of its pods; absent means that it has none.
    pub selector: Option<TextMap>,
}

/// An apps/v1 `ReplicaSet` or `StatefulSet`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Workload {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: WorkloadSpec,
}

/// `spec` of a workload.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkloadSpec {
    /// Its pods.
    pub selector: Option<Selector>,
}

/// `persistentVolumeClaim` of a pod's volume.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimReference {
    /// The claim's name, in the pod's namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub claim_name: String,
}

/// A disk that a pod names itself. Either one pod may use it, or several that only read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NamedDisk {
    /// Name or id of the disk.
    #[serde(
        alias = "pdName",
        alias = "volumeID",
        alias = "diskURI",
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
    /// Whether the pod only reads it.
    #[serde(deserialize_with = "null_is_default")]
    pub read_only: bool,
}

/// `namespace/name`: the key of an object among those of its kind.
pub fn full_name(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}
