//! Reads a live cluster. Volumes, devices, namespaces and HyperNodes are listed only if pending pods need them.

use super::further;
use super::objects::{ClusterObjects, Object};
use crate::cli::cluster::Cluster;
use crate::cli::connection::Connection;
use crate::cli::kind::{
    CLAIMS, CSI_DRIVERS, CSI_NODES, DEVICE_CLASSES, EVENTS, HYPER_NODES, JOBS, Kind, NAMESPACES,
    NODES, POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, REPLICA_SETS, RESOURCE_CLAIMS,
    RESOURCE_SLICES, STATEFUL_SETS, STORAGE_CAPACITIES, STORAGE_CLASSES, UPSTREAM_POD_GROUPS,
    VOLUME_ATTACHMENTS, VOLUMES, WORKLOADS,
};
use evictd_batch::conf::Conf;
use evictd_batch_objects::{GROUP_NAME, Job, PodGroup};
use evictd_command::Failure;
use evictd_pod::wire::Pod;
use serde::de::DeserializeOwned;

/// The kinds of objects that pending pods need.
#[derive(Default)]
struct Needs {
    volumes: bool,
    devices: bool,
    namespaces: bool,
}

impl Needs {
    /// The needs of the pending pods of this scheduler, and of the pods that jobs will create.
    fn of(pods: &[Pod], jobs: &[Job], scheduler: &str) -> Self {
        let mut needs = Self::default();
        let waits =
            |pod: &&Pod| pod.spec.node_name.is_empty() && pod.spec.scheduler_name == scheduler;
        for pod in pods.iter().filter(waits) {
            let mut volumes = pod.spec.volumes.iter();
            needs.volumes |= volumes.any(|volume| {
                volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
            });
            needs.devices |= !pod.spec.resource_claims.is_empty();
            // Pod affinity can select namespaces.
            needs.namespaces |= pod.spec.affinity.is_some();
        }
        for job in jobs {
            needs.volumes |= !job.spec.volumes.is_empty();
            for task in &job.spec.tasks {
                let spec = &task.template["spec"];
                let volumes = spec["volumes"].as_array().into_iter().flatten();
                let claims = |key| volumes.clone().any(|volume| volume.get(key).is_some());
                needs.volumes |= claims("persistentVolumeClaim") || claims("ephemeral");
                needs.devices |= spec.get("resourceClaims").is_some();
                needs.namespaces |= spec.get("affinity").is_some();
            }
        }
        needs
    }
}

/// Reads the objects. A kind that cannot be listed becomes a warning, and the answer is less exact.
pub(super) fn read(
    connection: &Connection,
    namespace: &str,
    (scheduler, conf): (&str, &Conf),
) -> Result<ClusterObjects, Failure> {
    let cluster = connection.open()?;
    let mut read = ClusterObjects {
        // Jobs of other namespaces matter only by their pod groups and pods.
        jobs: cluster.list(&JOBS, namespace)?,
        ..ClusterObjects::default()
    };
    let objects = &mut read.objects;
    objects.pod_groups = cluster.list(&POD_GROUPS, "")?;
    objects.queues = cluster.list(&QUEUES, "")?;
    objects.priority_classes = cluster.list(&PRIORITY_CLASSES, "")?;
    objects.nodes = cluster.list(&NODES, "")?;
    objects.pods = cluster.list(&PODS, "")?;
    match cluster.select(&EVENTS, namespace, "reason=Evict") {
        Ok(events) => read.events = events,
        Err(failure) => read
            .warnings
            .push(format!("past evictions are not shown: {failure}")),
    }
    further::read(&cluster, conf, &mut read);
    let needs = Needs::of(&read.objects.pods, &read.jobs, scheduler);
    let pods = read.objects.pods.iter();
    let mut pods = pods.filter(|pod| pod.spec.scheduler_name == scheduler);
    let has_groups = pods.clone().any(|pod| pod.spec.scheduling_group.is_some());
    let has_sets = pods.any(|pod| pod.spec.node_name.is_empty() && is_bare_pod_of_a_set(pod));
    let mut optional = OptionalKinds {
        cluster: &cluster,
        read,
    };
    if have_topologies(&optional.read.objects.pod_groups, &optional.read.jobs) {
        optional.list(&HYPER_NODES, Object::HyperNode);
    }
    if has_groups {
        optional.list(&UPSTREAM_POD_GROUPS, Object::UpstreamPodGroup);
        optional.list(&WORKLOADS, Object::Workload);
    }
    if has_sets {
        let effect = "the pods that they own seem to start one by one";
        optional.list_or(&REPLICA_SETS, Object::Owner, effect);
        optional.list_or(&STATEFUL_SETS, Object::Owner, effect);
    }
    if needs.namespaces {
        optional.list(&NAMESPACES, Object::Namespace);
    }
    if needs.volumes {
        optional.list(&CLAIMS, Object::Claim);
        optional.list(&VOLUMES, Object::Volume);
        optional.list(&STORAGE_CLASSES, Object::StorageClass);
        optional.list(&CSI_NODES, Object::CsiNode);
        optional.list(&VOLUME_ATTACHMENTS, Object::VolumeAttachment);
        optional.list(&CSI_DRIVERS, Object::CsiDriver);
        optional.list(&STORAGE_CAPACITIES, Object::StorageCapacity);
    }
    if needs.devices {
        optional.list(&RESOURCE_CLAIMS, Object::ResourceClaim);
        optional.list(&RESOURCE_SLICES, Object::ResourceSlice);
        optional.list(&DEVICE_CLASSES, Object::DeviceClass);
    }
    Ok(optional.read)
}

/// Whether a pod has no group, and an owner whose annotations count.
fn is_bare_pod_of_a_set(pod: &Pod) -> bool {
    let group = pod.metadata.annotations.get(GROUP_NAME);
    let mut owners = pod.metadata.owner_references.iter();
    group.is_none_or(str::is_empty)
        && pod.spec.scheduling_group.is_none()
        && owners
            .any(|owner| owner.controller && matches!(&*owner.kind, "ReplicaSet" | "StatefulSet"))
}

/// Whether a group, or a job whose group does not exist yet, has a topology.
fn have_topologies(groups: &[PodGroup], jobs: &[Job]) -> bool {
    let mut groups = groups.iter();
    let has_partitions = |job: &Job| {
        let mut tasks = job.spec.tasks.iter();
        tasks.any(|task| task.partition_policy.is_some())
    };
    groups.any(|group| {
        group.spec.network_topology.is_some() || !group.spec.sub_group_policy.is_empty()
    }) || jobs
        .iter()
        .any(|job| job.spec.network_topology.is_some() || has_partitions(job))
}

/// Kinds that only some pods need.
struct OptionalKinds<'c> {
    cluster: &'c Cluster,
    read: ClusterObjects,
}

impl OptionalKinds<'_> {
    /// Lists a kind in all namespaces.
    fn list<T: DeserializeOwned>(&mut self, kind: &Kind, variant: fn(Box<T>) -> Object) {
        self.list_or(kind, variant, "pods that need them seem to fit on no node");
    }

    /// The same with the effect of a list that fails.
    fn list_or<T: DeserializeOwned>(
        &mut self,
        kind: &Kind,
        variant: fn(Box<T>) -> Object,
        effect: &str,
    ) {
        let warnings = match self.cluster.list::<T>(kind, "") {
            Ok(objects) => {
                let objects = objects.into_iter().map(Box::new).map(variant);
                objects
                    .filter_map(|object| self.read.add(object).err())
                    .map(|error| format!("{}: {error}", kind.plural))
                    .collect()
            }
            Err(failure) => {
                let plural = kind.plural;
                vec![format!("{plural} cannot be listed, so {effect}: {failure}")]
            }
        };
        self.read.warnings.extend::<Vec<String>>(warnings);
    }
}
