//! Volumes of pods.

use super::{ClaimReference, NamedDisk, null_is_default};
use crate::Quantity;
use serde::{Deserialize, Serialize};

/// A volume. Only those kinds have a field that count as local storage, or of which a node can have too many.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Name within the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// An empty directory that lives as long as the pod.
    pub empty_dir: Option<EmptyDir>,
    /// A path of the node.
    pub host_path: Option<HostPath>,
    /// Files from a `ConfigMap`.
    pub config_map: Option<Present>,
    /// Files from a repository.
    pub git_repo: Option<Present>,
    /// A claim of the same namespace.
    pub persistent_volume_claim: Option<ClaimReference>,
    /// A claim made for this pod, named `<pod>-<volume>`.
    pub ephemeral: Option<Present>,
    /// A disk by its name.
    pub gce_persistent_disk: Option<Box<NamedDisk>>,
    /// A disk by its id.
    pub aws_elastic_block_store: Option<Box<NamedDisk>>,
    /// A disk by its qualified name.
    pub iscsi: Option<Box<NamedDisk>>,
    /// An image of a pool.
    pub rbd: Option<Box<NamedDisk>>,
    /// The content of a container image.
    pub image: Option<Box<ImageVolume>>,
    /// A volume that a CSI driver makes for this pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub csi: Option<Box<InlineCsiVolume>>,
}

/// `csi` of a pod's volume.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InlineCsiVolume {
    /// Name of the CSI driver.
    #[serde(deserialize_with = "null_is_default")]
    pub driver: String,
}

/// `image` of a volume.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ImageVolume {
    /// The image's name.
    #[serde(deserialize_with = "null_is_default")]
    pub reference: String,
}

/// Something of which only the presence matters.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Present {}

/// `emptyDir` of a volume.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct EmptyDir {
    /// Empty for disk, `Memory` for tmpfs, `HugePages...`.
    #[serde(deserialize_with = "null_is_default")]
    pub medium: String,
    /// The most it may hold.
    pub size_limit: Option<Quantity>,
}

/// `hostPath` of a volume.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct HostPath {
    /// The path on the node.
    #[serde(deserialize_with = "null_is_default")]
    pub path: String,
}
