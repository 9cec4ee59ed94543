//! What has to be done for a pod's claims before it can be bound to its node.

use evictd_placement::{
    Cluster, DeviceChoice, NodeId, Pod, VolumeChoice, device_choices, volume_choices,
};
use evictd_pod::wire;

/// What has to be written for the claims of a pod, and waited for, before it is bound (S5-094).
#[derive(Debug, Clone, Default)]
pub struct PreBindPlan {
    /// Volumes.
    pub volumes: Vec<VolumeChoice>,
    /// Devices.
    pub devices: Vec<DeviceChoice>,
}

/// A claim on devices as it was when something was decided about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Which version of it was looked at.
    pub resource_version: String,
}

impl ClaimRef {
    pub(crate) fn of(metadata: &wire::Metadata) -> Self {
        Self {
            namespace: metadata.namespace_or_default().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
            resource_version: metadata.resource_version.to_string(),
        }
    }
}

impl PreBindPlan {
    /// For a pod that goes to this node.
    pub(crate) fn of(cluster: &Cluster, pod: &Pod, node: NodeId) -> Self {
        Self {
            volumes: volume_choices(cluster, pod, node),
            devices: device_choices(cluster, pod, node),
        }
    }

    /// The same; its devices are nobody else's from now on.
    pub(crate) fn begin(cluster: &mut Cluster, pod: &Pod, node: NodeId) -> Self {
        let new = Self::of(cluster, pod, node);
        cluster.assume_devices(pod, &new.devices);
        new
    }

    /// Whether it can be bound at once.
    pub const fn is_empty(&self) -> bool {
        self.volumes.is_empty() && self.devices.is_empty()
    }
}
