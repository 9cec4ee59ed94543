//! What is known of a cluster, object by object.

use evictd_batch::session::Objects;
use evictd_batch::why::Event;
use evictd_batch::wire::{Job, PodGroup, Queue, Workload};
use evictd_placement::{Cluster, InvalidObject};
use evictd_pod::wire::{self, Pod};
use evictd_pod::{Node, defaults};

/// Everything that was found.
#[derive(Default)]
pub(super) struct Gathered {
    /// Namespaces, claims and volumes.
    pub(super) cluster: Cluster,
    pub(super) objects: Objects,
    pub(super) jobs: Vec<Job>,
    pub(super) events: Vec<Event>,
    /// What is left out, a line each.
    pub(super) warnings: Vec<String>,
}

/// One object.
pub(super) enum Object {
    Node(Box<Node>),
    Pod(Box<Pod>),
    Job(Box<Job>),
    PodGroup(Box<PodGroup>),
    /// One of Kubernetes' own.
    UpstreamPodGroup(Box<wire::PodGroup>),
    Workload(Box<Workload>),
    Queue(Box<Queue>),
    PriorityClass(Box<wire::PriorityClass>),
    Event(Box<Event>),
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

impl Gathered {
    /// Adds an object.
    pub(super) fn put(&mut self, object: Object) -> Result<(), InvalidObject> {
        let (objects, cluster) = (&mut self.objects, &mut self.cluster);
        match object {
            Object::Node(own) => objects.nodes.push(*own),
            Object::Pod(mut own) => {
                defaults::complete(&mut own);
                objects.pods.push(*own);
            }
            Object::Job(own) => self.jobs.push(*own),
            Object::PodGroup(own) => objects.pod_groups.push(*own),
            Object::UpstreamPodGroup(own) => objects.upstream_pod_groups.push(*own),
            Object::Workload(own) => objects.workloads.push(*own),
            Object::Queue(own) => objects.queues.push(*own),
            Object::PriorityClass(own) => objects.priority_classes.push(*own),
            Object::Event(own) => self.events.push(*own),
            Object::Namespace(own) => cluster.add_namespace(&own),
            Object::Claim(own) => cluster.add_claim(&own)?,
            Object::Volume(own) => cluster.add_volume(&own)?,
            Object::StorageClass(own) => cluster.add_storage_class(&own)?,
            Object::CsiNode(own) => cluster.add_csi_node(&own),
            Object::VolumeAttachment(own) => cluster.add_volume_attachment(&own),
            Object::CsiDriver(own) => cluster.add_csi_driver(&own),
            Object::StorageCapacity(own) => cluster.add_storage_capacity(&own)?,
            Object::ResourceClaim(own) => cluster.devices_mut().put_claim(*own),
            Object::ResourceSlice(own) => cluster.devices_mut().put_slice(*own),
            Object::DeviceClass(own) => cluster.devices_mut().put_class(*own),
        }
        Ok(())
    }
}
