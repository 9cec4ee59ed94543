//! The last state of each watched object, which the next change is compared with.
//!
//! Most objects of a cluster are pods with a node, and such a pod is needed again only when it changes. It is kept as a
//! [`CompactPod`]: the fields that scheduling needs, most of them shared with equal pods. A pending pod is needed all the time
//! and kept whole, and equal ones share spec, status and owners.

mod ids;
mod interner;
#[cfg(test)]
mod tests;

pub(super) use interner::Interner;

use super::resources::PodResources;
use evictd_cluster_client::{ByKey, Key, Keyed, Outline, Table, Unreadable};
use evictd_pod::requests::{self, Counted};
use evictd_pod::wire::{self, Shared};
use ids::{Phase, Uid, number};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::num::NonZeroU64;
use std::sync::Arc;

/// A kind that can be cached.
pub(super) trait Object: DeserializeOwned + Send + Sync + 'static {
    /// The cached form of an object.
    type Kept: Keyed + Send;
    type Table: Table<Self::Kept>;

    fn metadata(&self) -> &wire::Metadata;
    /// Drops fields that are not needed from an object that was just read, and shares others with equal objects.
    fn prune(&mut self, _interner: &mut Interner) {}
    /// The memory that it takes in bytes, if its JSON has `bytes`.
    fn size(&self, bytes: usize) -> usize {
        bytes
    }
    /// Shares fields with the state before the change.
    fn share_with(&mut self, _before: &Self::Kept) {}
    fn compact(this: &Arc<Self>, interner: &mut Interner) -> Self::Kept;
    /// The object as it was cached. Fields that no change is compared by may be missing.
    fn restore(kept: &Self::Kept) -> Arc<Self>;
    fn has_version(kept: &Self::Kept, version: &str) -> bool;
    fn has_uid(kept: &Self::Kept, uid: &str) -> bool;
    fn outline(&self) -> Outline {
        let metadata = self.metadata();
        Outline {
            namespace: metadata.namespace.to_string(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
            version: metadata.resource_version.to_string(),
            ..Outline::default()
        }
    }
    /// The resources of the pods that have not ended.
    fn resources(_kept: &Self::Table) -> Vec<PodResources> {
        Vec::new()
    }
    /// A substitute for an object that cannot be read. `None` keeps its last known state.
    fn unreadable(_before: Option<&Self::Kept>, _object: &Unreadable) -> Option<Self> {
        None
    }
}

pub(super) fn key(metadata: &wire::Metadata) -> Key<'_> {
    [&metadata.namespace, &metadata.name]
}

/// An object with all its fields.
pub(super) struct Whole<T>(Arc<T>);

impl<T: Object> Keyed for Whole<T> {
    fn key(&self) -> Key<'_> {
        key(self.0.metadata())
    }
}

/// Pending and assigned pods in two tables. One table of an enum of both would take twice the memory.
#[derive(Default)]
pub(super) struct PodTable {
    pending: ByKey<Whole<wire::Pod>>,
    assigned: ByKey<Box<CompactPod>>,
}

impl Table<CachedPod> for PodTable {
    fn len(&self) -> usize {
        self.pending.len() + self.assigned.len()
    }

    fn insert(&mut self, kept: CachedPod) -> Option<CachedPod> {
        match kept {
            CachedPod::Pending(pod) => {
                let assigned = self.assigned.remove(pod.key());
                let pending = self.pending.insert(pod);
                pending
                    .map(CachedPod::Pending)
                    .or(assigned.map(CachedPod::Assigned))
            }
            CachedPod::Assigned(pod) => {
                let pending = self.pending.remove(pod.key());
                let assigned = self.assigned.insert(pod);
                pending
                    .map(CachedPod::Pending)
                    .or(assigned.map(CachedPod::Assigned))
            }
        }
    }

    fn remove(&mut self, key: Key<'_>) -> Option<CachedPod> {
        let pending = self.pending.remove(key).map(CachedPod::Pending);
        pending.or_else(|| self.assigned.remove(key).map(CachedPod::Assigned))
    }

    fn into_objects(self) -> impl Iterator<Item = CachedPod> {
        let pending = self.pending.into_objects().map(CachedPod::Pending);
        pending.chain(self.assigned.into_objects().map(CachedPod::Assigned))
    }
}

/// Replaces the pod's name in the value of a label, so that the pods of a `StatefulSet` share their labels. The API server
/// allows no such value.
const NAME: &str = "*";

/// The labels with each value `from` replaced by `to`.
fn with_value(labels: &wire::TextMap, from: &str, to: &str) -> wire::TextMap {
    let value = |value| if value == from { to } else { value };
    let entries = labels.iter();
    entries.map(|(key, label)| (key, value(label))).collect()
}

pub(super) enum CachedPod {
    /// Also a pod that cannot be read, even if it has a node.
    Pending(Whole<wire::Pod>),
    Assigned(Box<CompactPod>),
}

impl Keyed for CachedPod {
    fn key(&self) -> Key<'_> {
        match self {
            Self::Pending(pod) => pod.key(),
            Self::Assigned(pod) => pod.key(),
        }
    }
}

/// A pod with a node: its identity, and the fields that it shares with equal pods.
pub(super) struct CompactPod {
    uid: Uid,
    /// `None` if it is no such number.
    version: Option<NonZeroU64>,
    name: Box<str>,
    namespace: Shared<String>,
    node: Shared<String>,
    /// `None` if it is none of the API's.
    phase: Option<Phase>,
    /// With [`NAME`] in place of the pod's name.
    labels: Shared<wire::TextMap>,
    /// Without the node, which is a field of its own.
    spec: Shared<wire::PodSpec>,
    generation: wire::Generation,
    /// Most pods have none of these.
    rare: Option<Box<Rare>>,
}

/// Fields that have no value in most pods.
#[derive(Default)]
struct Rare {
    deleted_at: Option<wire::Time>,
    /// The grace period in seconds.
    grace: Option<i32>,
    /// A version that is no number.
    version: Box<str>,
    /// A phase that is none of the API's.
    phase: Box<str>,
    /// The amounts that the node reports while it resizes the pod.
    reported: Option<Box<wire::PodStatus>>,
}

impl Rare {
    fn is_empty(&self) -> bool {
        let Self {
            deleted_at,
            grace,
            version,
            phase,
            reported,
        } = self;
        deleted_at.is_none()
            && grace.is_none()
            && version.is_empty()
            && phase.is_empty()
            && reported.is_none()
    }
}

impl CompactPod {
    fn version(&self) -> Box<str> {
        let text = || self.rare.as_ref().map(|rare| rare.version.clone());
        let number = self.version.map(|number| number.to_string().into());
        number.or_else(text).unwrap_or_default()
    }

    fn phase(&self) -> wire::PodPhase {
        let text: &str = match (self.phase, &self.rare) {
            (Some(phase), _) => phase.as_str(),
            (None, Some(rare)) => &rare.phase,
            (None, None) => "",
        };
        wire::PodPhase::of(text)
    }
}

impl Keyed for Box<CompactPod> {
    fn key(&self) -> Key<'_> {
        [&self.namespace, &self.name]
    }
}

/// A time of an outline. `None` if the text is empty.
fn time(text: &str) -> Option<wire::Time> {
    text.parse::<Timestamp>().ok().map(wire::Time::from)
}

/// The memory of one nested object or list in bytes, without its texts. It is that of a container, whose JSON may be only `{}`.
const PART: usize = 512;
/// An ordinary pod has at most this many parts, and counts by the length of its JSON alone.
const FEW_PARTS: usize = 128;

/// The approximate memory of an object: the length of its JSON, and more if it has many parts.
fn length(of: &impl Serialize) -> usize {
    #[derive(Default)]
    struct Count {
        bytes: usize,
        parts: usize,
    }
    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let parts = bytes.iter().filter(|byte| matches!(byte, b'{' | b'['));
            self.parts += parts.count();
            self.bytes += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count::default();
    // This cannot fail, because the keys of all maps are texts.
    let _ = serde_json::to_writer(&mut count, of);
    count.bytes + count.parts.saturating_sub(FEW_PARTS) * PART
}

/// Drops the fields of a pod with a node that scheduling does not need: annotations, owners, status, images and names.
fn trim(pod: &mut wire::Pod) {
    let reported = reported_resources(pod);
    let is_resized = reported.is_some();
    pod.metadata.annotations.clear();
    pod.metadata.owner_references = Shared::default();
    let phase = pod.status.phase.clone();
    let status = wire::PodStatus {
        phase,
        ..reported.unwrap_or_default()
    };
    pod.status = status.into();
    let spec = &mut *pod.spec;
    let containers = spec.containers.iter_mut();
    for container in containers.chain(&mut spec.init_containers) {
        container.image = String::new();
        // The amounts that the node reports are found by the name.
        if !is_resized {
            container.name = String::new();
        }
        // Only host ports can conflict. Other ports would keep pods from sharing their spec.
        for port in &mut container.ports {
            port.container_port = 0;
        }
    }
}

/// The part of the status that decides how much a pod requests while it is being resized. `None` if the spec alone decides,
/// as it does for nearly all pods.
fn reported_resources(pod: &wire::Pod) -> Option<wire::PodStatus> {
    let counts = [Counted::Scheduled, Counted::ScheduledSums];
    let is_resized = counts
        .into_iter()
        .any(|counted| requests::differs(pod, counted));
    if !is_resized {
        return None;
    }
    let amounts = |statuses: &[wire::ContainerStatus]| {
        let amounts = statuses.iter().map(|status| wire::ContainerStatus {
            name: status.name.clone(),
            allocated_resources: status.allocated_resources.clone(),
            resources: status.resources.clone(),
            ..wire::ContainerStatus::default()
        });
        amounts.collect()
    };
    let status = &*pod.status;
    let mut conditions = status.conditions.clone();
    conditions.retain(|condition| condition.kind == "PodResizePending");
    Some(wire::PodStatus {
        container_statuses: amounts(&status.container_statuses),
        init_container_statuses: amounts(&status.init_container_statuses),
        allocated_resources: status.allocated_resources.clone(),
        resources: status.resources.clone(),
        conditions,
        ..wire::PodStatus::default()
    })
}

/// Whether a volume may keep its pod from a node. The others are dropped, because the volume of the service account's token has
/// another name in each pod and would keep equal pods from sharing their spec.
fn is_mounted(volume: &wire::Volume) -> bool {
    let disks = [
        &volume.gce_persistent_disk,
        &volume.aws_elastic_block_store,
        &volume.iscsi,
        &volume.rbd,
    ];
    volume.persistent_volume_claim.is_some()
        || volume.ephemeral.is_some()
        || volume.csi.is_some()
        || volume.image.is_some()
        || disks.into_iter().any(Option::is_some)
}

impl Object for wire::Pod {
    type Kept = CachedPod;
    type Table = PodTable;

    fn metadata(&self) -> &wire::Metadata {
        &self.metadata
    }

    fn prune(&mut self, interner: &mut Interner) {
        self.metadata
            .annotations
            .retain(|key, _| evictd_batch::session::reads_annotation(key));
        self.spec.volumes.retain(is_mounted);
        // Lists that were just parsed have spare capacity.
        self.shrink_to_fit();
        interner.names.share(&mut self.metadata.namespace);
        if self.spec.node_name.is_empty() {
            interner.specs.share(&mut self.spec);
            interner.statuses.share(&mut self.status);
            interner.owners.share(&mut self.metadata.owner_references);
        }
    }

    fn share_with(&mut self, before: &CachedPod) {
        if let CachedPod::Pending(before) = before
            && before.0.metadata.uid == self.metadata.uid
        {
            self.metadata.uid = Arc::clone(&before.0.metadata.uid);
        }
    }

    fn compact(this: &Arc<Self>, interner: &mut Interner) -> CachedPod {
        // An unreadable pod keeps its problem, which a compact pod has no field for.
        if this.spec.node_name.is_empty() || this.spec.unreadable.is_some() {
            return CachedPod::Pending(Whole(Arc::clone(this)));
        }
        let mut pod = (**this).clone();
        trim(&mut pod);
        let wire::Metadata { name, labels, .. } = &pod.metadata;
        let labels = with_value(labels, name, NAME);
        let node = std::mem::take(&mut pod.spec.node_name);
        interner.specs.share(&mut pod.spec);
        let version = number(&pod.metadata.resource_version);
        let phase = Phase::of(pod.status.phase.as_str());
        let text = |is_known: bool, text: &str| if is_known { "" } else { text }.into();
        let rare = Rare {
            deleted_at: pod.metadata.deletion_timestamp,
            grace: pod.metadata.deletion_grace_period_seconds,
            version: text(version.is_some(), &pod.metadata.resource_version),
            phase: text(phase.is_some(), pod.status.phase.as_str()),
            reported: requests::may_be_resized(&pod).then(|| Box::new((*pod.status).clone())),
        };
        CachedPod::Assigned(Box::new(CompactPod {
            uid: Uid::of(&pod.metadata.uid),
            version,
            name: pod.metadata.name.into(),
            namespace: pod.metadata.namespace,
            node: interner.names.shared(node),
            phase,
            labels: interner.labels.shared(labels),
            spec: pod.spec,
            generation: pod.metadata.generation,
            rare: (!rare.is_empty()).then(|| Box::new(rare)),
        }))
    }

    fn restore(kept: &CachedPod) -> Arc<Self> {
        let pod = match kept {
            CachedPod::Pending(pod) => return Arc::clone(&pod.0),
            CachedPod::Assigned(pod) => pod,
        };
        let mut spec = pod.spec.clone();
        spec.node_name.clone_from(&pod.node);
        let rare = pod.rare.as_deref();
        let metadata = wire::Metadata {
            name: pod.name.to_string(),
            namespace: pod.namespace.clone(),
            uid: pod.uid.text(),
            resource_version: pod.version(),
            labels: with_value(&pod.labels, NAME, &pod.name),
            generation: pod.generation,
            deletion_timestamp: rare.and_then(|rare| rare.deleted_at),
            deletion_grace_period_seconds: rare.and_then(|rare| rare.grace),
            ..wire::Metadata::default()
        };
        let reported = rare.and_then(|rare| rare.reported.as_deref());
        let status = wire::PodStatus {
            phase: pod.phase(),
            ..reported.cloned().unwrap_or_default()
        };
        Arc::new(Self {
            metadata,
            spec,
            status: status.into(),
        })
    }

    fn has_version(kept: &CachedPod, version: &str) -> bool {
        match kept {
            CachedPod::Pending(pod) => *pod.0.metadata.resource_version == *version,
            CachedPod::Assigned(pod) => *pod.version() == *version,
        }
    }

    fn has_uid(kept: &CachedPod, uid: &str) -> bool {
        match kept {
            CachedPod::Pending(pod) => *pod.0.metadata.uid == *uid,
            CachedPod::Assigned(pod) => pod.uid == Uid::of(uid),
        }
    }

    /// The size of the cached fields. A long text may consist of fields that are dropped.
    fn size(&self, _bytes: usize) -> usize {
        if self.spec.node_name.is_empty() {
            return length(self);
        }
        let mut pod = self.clone();
        trim(&mut pod);
        length(&pod)
    }

    fn outline(&self) -> Outline {
        let metadata = &self.metadata;
        let deleted_at = metadata
            .deletion_timestamp
            .map(|at| at.timestamp().to_string());
        Outline {
            namespace: metadata.namespace.to_string(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
            version: metadata.resource_version.to_string(),
            deleted_at: deleted_at.unwrap_or_default(),
            node: self.spec.node_name.clone(),
            scheduler: self.spec.scheduler_name.clone(),
            phase: self.status.phase.to_string(),
        }
    }

    fn resources(kept: &PodTable) -> Vec<PodResources> {
        let is_known = |spec: &wire::PodSpec| spec.unreadable.is_none();
        let pending = kept.pending.iter().filter(|pod| is_known(&pod.0.spec));
        let pending = pending.map(|Whole(pod)| PodResources {
            namespace: pod.metadata.namespace.clone(),
            name: pod.metadata.name.as_str().into(),
            node: Shared::default(),
            spec: pod.spec.clone(),
            reported: None,
        });
        let assigned = kept.assigned.iter();
        let running = assigned.filter(|pod| !pod.phase().has_ended());
        let running = running.map(|pod| PodResources {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            node: pod.node.clone(),
            spec: pod.spec.clone(),
            reported: pod.rare.as_ref().and_then(|rare| rare.reported.clone()),
        });
        pending.chain(running).collect()
    }

    /// A pod with a node keeps its last known requests, also those from before its binding. A pending pod becomes one with an
    /// unknown spec.
    fn unreadable(before: Option<&CachedPod>, object: &Unreadable) -> Option<Self> {
        let outline = &object.outline;
        let known = before.map(Self::restore);
        let known = known.filter(|pod| pod.spec.unreadable.is_none());
        if let Some(known) = known
            && !(outline.node.is_empty() && known.spec.node_name.is_empty())
        {
            let mut pod = (*known).clone();
            if !outline.node.is_empty() {
                pod.spec.node_name.clone_from(&outline.node);
            }
            if !outline.phase.is_empty() {
                pod.status.phase = wire::PodPhase::of(&outline.phase);
            }
            pod.metadata.deletion_timestamp = time(&outline.deleted_at);
            pod.metadata.resource_version = outline.version.as_str().into();
            return Some(pod);
        }
        let metadata = wire::Metadata {
            name: outline.name.clone(),
            namespace: outline.namespace.clone().into(),
            uid: outline.uid.as_str().into(),
            resource_version: outline.version.as_str().into(),
            deletion_timestamp: time(&outline.deleted_at),
            ..wire::Metadata::default()
        };
        let spec = wire::PodSpec {
            node_name: outline.node.clone(),
            scheduler_name: outline.scheduler.clone(),
            ..wire::PodSpec::default()
        };
        let phase = wire::PodPhase::of(&outline.phase);
        Some(Self::of_unknown_spec(
            metadata,
            spec,
            phase,
            &object.problem,
        ))
    }
}

macro_rules! cached_whole {
    ($($type:ty),*) => {$(
        impl Object for $type {
            type Kept = Whole<Self>;
            type Table = ByKey<Whole<Self>>;

            fn metadata(&self) -> &wire::Metadata {
                &self.metadata
            }

            fn compact(this: &Arc<Self>, _: &mut Interner) -> Whole<Self> {
                Whole(Arc::clone(this))
            }

            fn restore(kept: &Whole<Self>) -> Arc<Self> {
                Arc::clone(&kept.0)
            }

            fn has_version(kept: &Whole<Self>, version: &str) -> bool {
                *kept.0.metadata.resource_version == *version
            }

            fn has_uid(kept: &Whole<Self>, uid: &str) -> bool {
                *kept.0.metadata.uid == *uid
            }
        }
    )*};
}

cached_whole! {
    evictd_pod::Node, wire::Namespace, wire::Service, wire::Workload, wire::PodDisruptionBudget,
    wire::PersistentVolumeClaim, wire::PersistentVolume, wire::StorageClass, wire::CsiNode, wire::CsiDriverObject,
    wire::CsiStorageCapacity, wire::VolumeAttachment, wire::PodGroup, wire::CompositePodGroup,
    wire::ResourceClaim, wire::ResourceSlice, wire::DeviceClass, wire::DeviceTaintRule,
    wire::PriorityClass, evictd_batch_objects::PodGroup, evictd_batch_objects::Queue, evictd_batch_objects::Workload,
    evictd_batch_objects::ResourceQuota, evictd_batch_objects::Numatopology, evictd_hyper_nodes::HyperNode
}
