//! Objects of files as the events of a watch.

use crate::change::{Change, Delta};
use crate::scheduler::Event;
use evictd_manifests::Object;
use std::sync::Arc;

/// The event that an object was created; `None` for one that only admission needs.
pub(super) fn created(object: &Object) -> Option<Event> {
    fn new<T: Clone>(object: &T) -> Delta<T> {
        Delta {
            old: None,
            new: Some(Arc::new(object.clone())),
        }
    }
    Some(match object {
        Object::Pod(manifest) => Event::Change(Change::Pod(new(&manifest.pod))),
        Object::Node(node) => Event::Change(Change::Node(new(node.as_ref()))),
        Object::PersistentVolumeClaim(claim) => {
            Event::Change(Change::PersistentVolumeClaim(new(claim.as_ref())))
        }
        Object::PersistentVolume(volume) => {
            Event::Change(Change::PersistentVolume(new(volume.as_ref())))
        }
        Object::StorageClass(class) => Event::Change(Change::StorageClass(new(class.as_ref()))),
        Object::CsiNode(node) => Event::Change(Change::CsiNode(new(node.as_ref()))),
        Object::CsiDriver(driver) => Event::Change(Change::CsiDriver(new(driver.as_ref()))),
        Object::CsiStorageCapacity(capacity) => {
            Event::Change(Change::CsiStorageCapacity(new(capacity.as_ref())))
        }
        Object::VolumeAttachment(attachment) => {
            Event::Change(Change::VolumeAttachment(new(attachment.as_ref())))
        }
        Object::ResourceClaim(claim) => Event::Change(Change::ResourceClaim(new(claim.as_ref()))),
        Object::ResourceSlice(slice) => Event::Change(Change::ResourceSlice(new(slice.as_ref()))),
        Object::DeviceClass(class) => Event::Change(Change::DeviceClass(new(class.as_ref()))),
        Object::DeviceTaintRule(rule) => Event::Change(Change::DeviceTaintRule(new(rule.as_ref()))),
        Object::Namespace(namespace) => Event::Change(Change::Namespace(new(namespace.as_ref()))),
        Object::Service(service) => Event::Change(Change::Service(new(service.as_ref()))),
        Object::ReplicationController(controller) => {
            Event::Change(Change::ReplicationController(new(controller.as_ref())))
        }
        Object::ReplicaSet(set) => Event::Change(Change::ReplicaSet(new(set.as_ref()))),
        Object::StatefulSet(set) => Event::Change(Change::StatefulSet(new(set.as_ref()))),
        Object::PodDisruptionBudget(budget) => Event::PodDisruptionBudget(new(budget.as_ref())),
        Object::PodGroup(group) => Event::PodGroup(new(group.as_ref())),
        Object::CompositePodGroup(group) => Event::CompositePodGroup(new(group.as_ref())),
        Object::PriorityClass(_)
        | Object::RuntimeClass(_)
        | Object::LimitRange(_)
        | Object::ResourceClaimTemplate(_) => return None,
    })
}
