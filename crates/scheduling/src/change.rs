//! Changes of objects, as watches report them.

use evictd_pod::{Node, wire};
use std::sync::Arc;

/// An object before and after a change. Without `old` it was added, without `new` it was deleted.
#[derive(Debug)]
pub struct Delta<T> {
    /// The object before the change.
    pub old: Option<Arc<T>>,
    /// The object after the change.
    pub new: Option<Arc<T>>,
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        Self {
            old: self.old.clone(),
            new: self.new.clone(),
        }
    }
}

impl<T> Delta<T> {
    /// Both states of an updated object.
    pub(crate) fn both(&self) -> Option<(&T, &T)> {
        Some((self.old.as_deref()?, self.new.as_deref()?))
    }
}

/// A change of one object.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "they are the kinds of the API")]
pub enum Change {
    Pod(Delta<wire::Pod>),
    Node(Delta<Node>),
    PersistentVolumeClaim(Delta<wire::PersistentVolumeClaim>),
    PersistentVolume(Delta<wire::PersistentVolume>),
    StorageClass(Delta<wire::StorageClass>),
    CsiNode(Delta<wire::CsiNode>),
    CsiDriver(Delta<wire::CsiDriverObject>),
    CsiStorageCapacity(Delta<wire::CsiStorageCapacity>),
    VolumeAttachment(Delta<wire::VolumeAttachment>),
    ResourceClaim(Delta<wire::ResourceClaim>),
    ResourceSlice(Delta<wire::ResourceSlice>),
    DeviceClass(Delta<wire::DeviceClass>),
    DeviceTaintRule(Delta<wire::DeviceTaintRule>),
    Namespace(Delta<wire::Namespace>),
    Service(Delta<wire::Service>),
    ReplicationController(Delta<wire::Service>),
    ReplicaSet(Delta<wire::Workload>),
    StatefulSet(Delta<wire::Workload>),
    /// A failed pod was added, changed or deleted. It may also be reported as a pod.
    FailedPod(Delta<wire::Pod>),
}

pub(crate) fn is_same(one: &wire::Metadata, other: &wire::Metadata) -> bool {
    one.uid == other.uid
        && (!one.uid.is_empty()
            || (one.namespace_or_default() == other.namespace_or_default()
                && one.name == other.name))
}

pub(crate) fn is_assigned(pod: &wire::Pod) -> bool {
    !pod.spec.node_name.is_empty()
}

/// Whether it counts on a node: its own or the nominated one.
pub(crate) fn takes_room(pod: &wire::Pod) -> bool {
    is_assigned(pod) || !pod.status.nominated_node_name.is_empty()
}
