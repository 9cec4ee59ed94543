//! The `PreBind` plan: the writes to the claims of a pod that must succeed before it can be bound.

use evictd_placement::{
    Cluster, DeviceChoice, NodeId, Pod, VolumeChoice, device_choices, volume_choices,
};
use evictd_pod::wire;

/// The volumes and devices that must be bound before the pod (S5-094).
#[derive(Debug, Clone, Default)]
pub struct PreBindPlan {
    /// The volumes of its claims.
    pub volumes: Vec<VolumeChoice>,
    /// The devices of its claims.
    pub devices: Vec<DeviceChoice>,
}

/// A `ResourceClaim` in the version that a decision is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The UID.
    pub uid: String,
    /// The version.
    pub resource_version: String,
    /// Whether it is a special claim for extended resources, which is deleted with its devices.
    pub is_special: bool,
    /// Whether it is reserved for a group: only if no pod of the group has a node its devices may be deallocated (S7-103).
    pub is_of_group: bool,
}

impl ClaimRef {
    pub(crate) fn of(metadata: &wire::Metadata) -> Self {
        Self {
            namespace: metadata.namespace_or_default().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
            resource_version: metadata.resource_version.to_string(),
            is_special: false,
            is_of_group: false,
        }
    }
}

impl PreBindPlan {
    /// The plan for a pod on this node.
    pub(crate) fn of(cluster: &Cluster, pod: &Pod, node: NodeId) -> Self {
        Self {
            volumes: volume_choices(cluster, pod, node),
            devices: device_choices(cluster, pod, node),
        }
    }

    /// As [`Self::of`], and reserves the devices for the pod.
    pub(crate) fn begin(cluster: &mut Cluster, pod: &Pod, node: NodeId) -> Self {
        let plan = Self::of(cluster, pod, node);
        cluster.assume_devices(pod, &plan.devices);
        plan
    }

    /// Whether the pod can be bound at once.
    pub const fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.devices.is_empty()
    }
}
