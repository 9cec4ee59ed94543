//! A live cluster: what sessions go by is listed; claims and devices only where pods that wait need them.

use super::gathered::{Gathered, Object};
use crate::cli::cluster::Cluster;
use crate::cli::connection::Connection;
use crate::cli::kind::{
    CLAIMS, CSI_DRIVERS, CSI_NODES, DEVICE_CLASSES, EVENTS, JOBS, Kind, NAMESPACES, NODES,
    POD_GROUPS, PODS, PRIORITY_CLASSES, QUEUES, RESOURCE_CLAIMS, RESOURCE_SLICES,
    STORAGE_CAPACITIES, STORAGE_CLASSES, UPSTREAM_POD_GROUPS, VOLUME_ATTACHMENTS, VOLUMES,
    WORKLOADS,
};
use evictd_batch::wire::Job;
use evictd_command::Failure;
use evictd_pod::wire::Pod;
use serde::de::DeserializeOwned;

/// What pods ask for beyond room on a node.
#[derive(Default)]
struct Needs {
    volumes: bool,
    devices: bool,
    neighbours: bool,
}

impl Needs {
    /// What the pods of this scheduler need that wait, and those that jobs will have.
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
            needs.neighbours |= pod.spec.affinity.is_some();
        }
        for job in jobs {
            needs.volumes |= !job.spec.volumes.is_empty();
            for task in &job.spec.tasks {
                let spec = &task.template["spec"];
                let volumes = spec["volumes"].as_array().into_iter().flatten();
                let claims = |key| volumes.clone().any(|volume| volume.get(key).is_some());
                needs.volumes |= claims("persistentVolumeClaim") || claims("ephemeral");
                needs.devices |= spec.get("resourceClaims").is_some();
                needs.neighbours |= spec.get("affinity").is_some();
            }
        }
        needs
    }
}

/// Reads what there is; without what is said in a warning the answer may be less exact.
pub(super) fn read(
    connection: &Connection,
    namespace: &str,
    scheduler: &str,
) -> Result<Gathered, Failure> {
    let cluster = connection.open()?;
    let mut own = Gathered {
        jobs: cluster.list(&JOBS, namespace)?,
        ..Gathered::default()
    };
    own.objects.pod_groups = cluster.list(&POD_GROUPS, "")?;
    own.objects.queues = cluster.list(&QUEUES, "")?;
    own.objects.priority_classes = cluster.list(&PRIORITY_CLASSES, "")?;
    own.objects.nodes = cluster.list(&NODES, "")?;
    own.objects.pods = cluster.list(&PODS, "")?;
    match cluster.select(&EVENTS, namespace, "reason=Evict") {
        Ok(events) => own.events = events,
        Err(failure) => own
            .warnings
            .push(format!("evictions of the past are not shown: {failure}")),
    }
    let needs = Needs::of(&own.objects.pods, &own.jobs, scheduler);
    let of_groups = own
        .objects
        .pods
        .iter()
        .any(|pod| pod.spec.scheduling_group.is_some() && pod.spec.scheduler_name == scheduler);
    let mut also = Also {
        cluster: &cluster,
        gathered: own,
    };
    if of_groups {
        also.list(&UPSTREAM_POD_GROUPS, Object::UpstreamPodGroup);
        also.list(&WORKLOADS, Object::Workload);
    }
    if needs.neighbours {
        also.list(&NAMESPACES, Object::Namespace);
    }
    if needs.volumes {
        also.list(&CLAIMS, Object::Claim);
        also.list(&VOLUMES, Object::Volume);
        also.list(&STORAGE_CLASSES, Object::StorageClass);
        also.list(&CSI_NODES, Object::CsiNode);
        also.list(&VOLUME_ATTACHMENTS, Object::VolumeAttachment);
        also.list(&CSI_DRIVERS, Object::CsiDriver);
        also.list(&STORAGE_CAPACITIES, Object::StorageCapacity);
    }
    if needs.devices {
        also.list(&RESOURCE_CLAIMS, Object::ResourceClaim);
        also.list(&RESOURCE_SLICES, Object::ResourceSlice);
        also.list(&DEVICE_CLASSES, Object::DeviceClass);
    }
    Ok(also.gathered)
}

/// What only some pods need.
struct Also<'c> {
    cluster: &'c Cluster,
    gathered: Gathered,
}

impl Also<'_> {
    /// All objects of a kind, in all namespaces. What cannot be had is warned of: pods that need it are said to fit nowhere.
    fn list<T: DeserializeOwned>(&mut self, kind: &Kind, make: fn(Box<T>) -> Object) {
        let warnings = match self.cluster.list::<T>(kind, "") {
            Ok(objects) => {
                let objects = objects.into_iter().map(Box::new).map(make);
                let put = |object| self.gathered.put(object).err();
                let mistakes = objects.filter_map(put);
                mistakes
                    .map(|mistake| format!("{}: {mistake}", kind.plural))
                    .collect()
            }
            Err(failure) => {
                let plural = kind.plural;
                vec![format!(
                    "{plural} are not known, so that pods that need some seem to fit nowhere: {failure}"
                )]
            }
        };
        self.gathered.warnings.extend::<Vec<String>>(warnings);
    }
}
