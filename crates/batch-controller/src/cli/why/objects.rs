//! The objects of a cluster that an answer may need.

use evictd_batch::session::Objects;
use evictd_batch::why::Event;
use evictd_batch_objects::{Job, Workload};
use evictd_hyper_nodes::HyperNode;
use evictd_placement::{Cluster, InvalidObject};
use evictd_pod::Node;
use evictd_pod::wire::{self, Pod};

#[derive(Default)]
pub(super) struct ClusterObjects {
    /// Namespaces, claims and volumes.
    pub(super) cluster: Cluster,
    pub(super) objects: Objects,
    pub(super) jobs: Vec<Job>,
    pub(super) events: Vec<Event>,
    /// One line for each kind or object that could not be read.
    pub(super) warnings: Vec<String>,
}

pub(super) enum Object {
    Node(Box<Node>),
    Pod(Box<Pod>),
    /// A pod group of `scheduling.k8s.io`.
    UpstreamPodGroup(Box<wire::PodGroup>),
    Workload(Box<Workload>),
    HyperNode(Box<HyperNode>),
    /// A `ReplicaSet` or a `StatefulSet`.
    Owner(Box<wire::Workload>),
    PriorityClass(Box<wire::PriorityClass>),
    Namespace(Box<wire::Namespace>),
    Claim(Box<wire::PersistentVolumeClaim>),
    Volume(Box<wire::PersistentVolume>),
    StorageClass(Box<wire::StorageClass>),
    CsiNode(Box<wire::CsiNode>),
    VolumeAttachment(Box<wire::VolumeAttachment>),
    CsiDriver(Box<wire::CsiDriverObject>),
    StorageCapacity(Box<wire::CsiStorageCapacity>),
    ResourceClaim(Box<wire::ResourceClaim>),
    ResourceSlice(Box<wire::ResourceSlice>),
    DeviceClass(Box<wire::DeviceClass>),
}

impl ClusterObjects {
    pub(super) fn add(&mut self, object: Object) -> Result<(), InvalidObject> {
        let (objects, cluster) = (&mut self.objects, &mut self.cluster);
        match object {
            Object::Node(object) => objects.nodes.push(*object),
            Object::Pod(object) => objects.pods.push(*object),
            Object::UpstreamPodGroup(object) => objects.upstream_pod_groups.push(*object),
            Object::Workload(object) => objects.workloads.push(*object),
            Object::HyperNode(object) => objects.hyper_nodes.push(*object),
            Object::Owner(object) => objects.owners.push(*object),
            Object::PriorityClass(object) => objects.priority_classes.push(*object),
            Object::Namespace(object) => cluster.add_namespace(&object),
            Object::Claim(object) => cluster.add_claim(&object)?,
            Object::Volume(object) => cluster.add_volume(&object)?,
            Object::StorageClass(object) => cluster.add_storage_class(&object)?,
            Object::CsiNode(object) => cluster.add_csi_node(&object),
            Object::VolumeAttachment(object) => cluster.add_volume_attachment(&object),
            Object::CsiDriver(object) => cluster.add_csi_driver(&object),
            Object::StorageCapacity(object) => cluster.add_storage_capacity(&object)?,
            Object::ResourceClaim(object) => cluster.devices_mut().put_claim(*object),
            Object::ResourceSlice(object) => cluster.devices_mut().put_slice(*object),
            Object::DeviceClass(object) => cluster.devices_mut().put_class(*object),
        }
        Ok(())
    }
}
