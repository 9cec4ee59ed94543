//! Objects as they are kept between two changes. A cluster has more pods with a node than anything else, and each is looked at
//! again only when it changes: of those little is kept, most of which equal pods share. Pods that wait are looked at all the
//! time: equal ones share their specs, statuses and owners.

mod ids;
mod interned;

pub(super) use interned::Texts;

use evictd_cluster_client::{ByKey, Key, Keyed, Outline, Table, Unreadable};
use evictd_pod::requests::{self, Counted};
use evictd_pod::wire::{self, Shared};
use ids::{Uid, Version};
use jiff::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io;
use std::sync::Arc;

/// An object with metadata that can be kept.
pub(super) trait Object: DeserializeOwned + Send + Sync + 'static {
    /// As it is kept.
    type Kept: Keyed + Send;
    /// Where it is kept.
    type Known: Table<Self::Kept>;

    fn metadata(&self) -> &wire::Metadata;
    /// Drops what nobody asks for, when it was just read, and shares the rest with what is known.
    fn tidy(&mut self, _known: &mut Texts) {}
    /// How many bytes it takes, if its text has so many.
    fn size(&self, bytes: usize) -> usize {
        bytes
    }
    /// Shares with what it was before.
    fn succeed(&mut self, _before: &Self::Kept) {}
    fn keep(this: &Arc<Self>, texts: &mut Texts) -> Self::Kept;
    /// What is needed of it to compare it with the next change.
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
    /// What stands for an object that cannot be read, if its last known state does not.
    fn unreadable(_before: Option<&Self::Kept>, _object: &Unreadable) -> Option<Self> {
        None
    }
}

pub(super) fn key(metadata: &wire::Metadata) -> Key<'_> {
    [&metadata.namespace, &metadata.name]
}

/// An object that is kept as it is.
pub(super) struct Whole<T>(Arc<T>);

impl<T: Object> Keyed for Whole<T> {
    fn key(&self) -> Key<'_> {
        key(self.0.metadata())
    }
}

/// Pods that wait and pods that have a node, each in a table of their own: what can be either takes twice the room.
#[derive(Default)]
pub(super) struct KnownPods {
    waiting: ByKey<Whole<wire::Pod>>,
    placed: ByKey<Box<Placed>>,
}

impl Table<KeptPod> for KnownPods {
    fn len(&self) -> usize {
        self.waiting.len() + self.placed.len()
    }

    fn insert(&mut self, kept: KeptPod) -> Option<KeptPod> {
        match kept {
            KeptPod::Waiting(pod) => {
                let placed = self.placed.remove(pod.key());
                let waited = self.waiting.insert(pod);
                waited.map(KeptPod::Waiting).or(placed.map(KeptPod::Placed))
            }
            KeptPod::Placed(pod) => {
                let waited = self.waiting.remove(pod.key());
                let placed = self.placed.insert(pod);
                waited.map(KeptPod::Waiting).or(placed.map(KeptPod::Placed))
            }
        }
    }

    fn remove(&mut self, key: Key<'_>) -> Option<KeptPod> {
        let waited = self.waiting.remove(key).map(KeptPod::Waiting);
        waited.or_else(|| self.placed.remove(key).map(KeptPod::Placed))
    }

    fn into_objects(self) -> impl Iterator<Item = KeptPod> {
        let waiting = self.waiting.into_objects().map(KeptPod::Waiting);
        waiting.chain(self.placed.into_objects().map(KeptPod::Placed))
    }
}

/// Stands for the name of the pod in a label of its own, as a `StatefulSet` gives it to each. No label's value has this.
const NAME: &str = "*";

/// The labels with one text in the place of another, where that is a whole value.
fn with_value(labels: &wire::TextMap, from: &str, to: &str) -> wire::TextMap {
    let value = |value| if value == from { to } else { value };
    let entries = labels.iter();
    entries.map(|(key, own)| (key, value(own))).collect()
}

/// A pod that waits for a node, as it is, or one that has a node. One that cannot be read stays as it is, too.
pub(super) enum KeptPod {
    Waiting(Whole<wire::Pod>),
    Placed(Box<Placed>),
}

impl Keyed for KeptPod {
    fn key(&self) -> Key<'_> {
        match self {
            Self::Waiting(pod) => pod.key(),
            Self::Placed(placed) => placed.key(),
        }
    }
}

/// A bound pod: its identity, and the specification that it shares with equal pods.
pub(super) struct Placed {
    uid: Uid,
    version: Version,
    name: Box<str>,
    namespace: Shared<String>,
    node: Shared<String>,
    phase: Shared<String>,
    /// With [`NAME`] in the place of its name.
    labels: Shared<wire::TextMap>,
    /// Without its node.
    spec: Shared<wire::PodSpec>,
    deleted_at: Option<wire::Time>,
    deletion_grace: Option<i32>,
}

impl Keyed for Box<Placed> {
    fn key(&self) -> Key<'_> {
        [&self.namespace, &self.name]
    }
}

/// The time in an outline, if there is one.
fn time(text: &str) -> Option<wire::Time> {
    text.parse::<Timestamp>().ok().map(wire::Time::from)
}

/// The memory of one nested object or list beside its texts, in bytes: about that of a container, of which `{}` may be all the
/// text.
const PART: usize = 512;
/// An ordinary pod has no more of them, and counts with its texts alone.
const FEW_PARTS: usize = 128;

/// About how much an object takes: its length as JSON, and more for many parts.
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
    // Nothing of a pod fails to become JSON: its keys are texts.
    let _ = serde_json::to_writer(&mut count, of);
    count.bytes + count.parts.saturating_sub(FEW_PARTS) * PART
}

/// Of the pods that have a node nobody asks any more how they look, whose they are and what they run. What counts of their
/// requests while they are resized depends on their status, which is dropped: it is written into their specs.
fn trim(pod: &mut wire::Pod) {
    requests::settle(pod, Counted::Scheduled);
    pod.metadata.annotations.clear();
    pod.metadata.owner_references = Shared::default();
    let phase = pod.status.phase.clone();
    let status = wire::PodStatus {
        phase,
        ..wire::PodStatus::default()
    };
    pod.status = status.into();
    let spec = &mut *pod.spec;
    let containers = spec.containers.iter_mut();
    for container in containers.chain(&mut spec.init_containers) {
        container.image = String::new();
        container.name = String::new();
        for port in &mut container.ports {
            port.container_port = 0;
        }
    }
}

/// Whether a volume may keep its pod from a node. That with the token of the service account has another name in each pod.
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
    type Kept = KeptPod;
    type Known = KnownPods;

    fn metadata(&self) -> &wire::Metadata {
        &self.metadata
    }

    fn tidy(&mut self, known: &mut Texts) {
        self.metadata
            .annotations
            .retain(|key, _| evictd_batch::session::reads_annotation(key));
        self.spec.volumes.retain(is_mounted);
        self.shrink_to_fit();
        known.names.share(&mut self.metadata.namespace);
        if self.spec.node_name.is_empty() {
            known.specs.share(&mut self.spec);
            known.statuses.share(&mut self.status);
            known.owners.share(&mut self.metadata.owner_references);
        }
    }

    fn succeed(&mut self, before: &KeptPod) {
        if let KeptPod::Waiting(before) = before
            && before.0.metadata.uid == self.metadata.uid
        {
            self.metadata.uid = Arc::clone(&before.0.metadata.uid);
        }
    }

    fn keep(this: &Arc<Self>, texts: &mut Texts) -> KeptPod {
        if this.spec.node_name.is_empty() || this.spec.unreadable.is_some() {
            return KeptPod::Waiting(Whole(Arc::clone(this)));
        }
        let mut pod = (**this).clone();
        trim(&mut pod);
        let wire::Metadata { name, labels, .. } = &pod.metadata;
        let labels = with_value(labels, name, NAME);
        let node = std::mem::take(&mut pod.spec.node_name);
        texts.specs.share(&mut pod.spec);
        KeptPod::Placed(Box::new(Placed {
            uid: Uid::of(&pod.metadata.uid),
            version: Version::of(&pod.metadata.resource_version),
            name: pod.metadata.name.into(),
            namespace: pod.metadata.namespace,
            node: texts.names.shared(node),
            phase: texts.names.shared(pod.status.phase.clone()),
            labels: texts.labels.shared(labels),
            spec: pod.spec,
            deleted_at: pod.metadata.deletion_timestamp,
            deletion_grace: pod.metadata.deletion_grace_period_seconds,
        }))
    }

    fn restore(kept: &KeptPod) -> Arc<Self> {
        let placed = match kept {
            KeptPod::Waiting(pod) => return Arc::clone(&pod.0),
            KeptPod::Placed(placed) => placed,
        };
        let mut spec = placed.spec.clone();
        spec.node_name.clone_from(&placed.node);
        let metadata = wire::Metadata {
            name: placed.name.to_string(),
            namespace: placed.namespace.clone(),
            uid: placed.uid.text(),
            resource_version: placed.version.text(),
            labels: with_value(&placed.labels, NAME, &placed.name),
            deletion_timestamp: placed.deleted_at,
            deletion_grace_period_seconds: placed.deletion_grace,
            ..wire::Metadata::default()
        };
        let status = wire::PodStatus {
            phase: placed.phase.to_string(),
            ..wire::PodStatus::default()
        };
        Arc::new(Self {
            metadata,
            spec,
            status: status.into(),
        })
    }

    fn has_version(kept: &KeptPod, version: &str) -> bool {
        match kept {
            KeptPod::Waiting(pod) => *pod.0.metadata.resource_version == *version,
            KeptPod::Placed(placed) => placed.version == Version::of(version),
        }
    }

    fn has_uid(kept: &KeptPod, uid: &str) -> bool {
        match kept {
            KeptPod::Waiting(pod) => *pod.0.metadata.uid == *uid,
            KeptPod::Placed(placed) => placed.uid == Uid::of(uid),
        }
    }

    /// The size of the kept fields: most of a long text may belong to others.
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
            phase: self.status.phase.clone(),
        }
    }

    /// A pod with a node keeps its last known requests; what it asked for while it waited counts as known, too. Of one that
    /// waits everything is unknown.
    fn unreadable(before: Option<&KeptPod>, object: &Unreadable) -> Option<Self> {
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
                pod.status.phase.clone_from(&outline.phase);
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
        let phase = outline.phase.clone();
        Some(Self::of_unknown_spec(
            metadata,
            spec,
            phase,
            &object.problem,
        ))
    }
}

macro_rules! as_they_are {
    ($($type:ty),*) => {$(
        impl Object for $type {
            type Kept = Whole<Self>;
            type Known = ByKey<Whole<Self>>;

            fn metadata(&self) -> &wire::Metadata {
                &self.metadata
            }

            fn keep(this: &Arc<Self>, _: &mut Texts) -> Whole<Self> {
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

as_they_are! {
    evictd_pod::Node, wire::Namespace, wire::Service, wire::Workload, wire::PodDisruptionBudget,
    wire::PersistentVolumeClaim, wire::PersistentVolume, wire::StorageClass, wire::CsiNode, wire::CsiDriverObject,
    wire::CsiStorageCapacity, wire::VolumeAttachment, wire::PodGroup,
    wire::ResourceClaim, wire::ResourceSlice, wire::DeviceClass,
    wire::PriorityClass, evictd_batch::wire::PodGroup, evictd_batch::wire::Queue, evictd_batch::wire::Workload
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pod(node: &str) -> Arc<wire::Pod> {
        let pod = json!({
            "metadata": { "name": "web-1", "namespace": "shop", "uid": "u-1", "resourceVersion": "17",
                "labels": { "app": "web", "empty": "", "pod-name": "web-1" }, "annotations": { "long": "text" },
                "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30 },
            "spec": { "nodeName": node, "priority": 7, "schedulerName": "mine", "nodeSelector": { "disk": "" },
                "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } },
                    "ports": [{ "hostPort": 80, "protocol": "TCP" }] }],
                "volumes": [{ "name": "a", "ephemeral": {} }, { "name": "b", "emptyDir": {} }, { "name": "c",
                    "persistentVolumeClaim": { "claimName": "disk" } }],
                "tolerations": [{ "operator": "Exists" }],
                "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                    { "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {} }, { "topologyKey": "host" }] } },
                "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Exists", "values": [] }] } }] },
            "status": { "phase": "Running", "reason": "none", "startTime": "2026-01-01T00:00:00Z" },
        });
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn a_pod_with_a_node_is_restored_as_it_was_but_for_what_nobody_asks() {
        let mut texts = Texts::default();
        let pod = pod("one");
        let kept = wire::Pod::keep(&pod, &mut texts);
        assert!(wire::Pod::has_version(&kept, "17") && !wire::Pod::has_version(&kept, "7"));
        assert!(wire::Pod::has_uid(&kept, "u-1") && !wire::Pod::has_uid(&kept, "u-2"));
        let restored = wire::Pod::restore(&kept);
        let KeptPod::Placed(placed) = &kept else {
            panic!("it has a node");
        };
        assert_eq!(placed.key(), ["shop", "web-1"]);
        let mut expected = (*pod).clone();
        trim(&mut expected);
        assert_eq!(restored.metadata.resource_version, "17".into());
        assert_eq!(
            serde_json::to_value(&*restored).unwrap(),
            serde_json::to_value(expected).unwrap()
        );
    }

    /// So that those who wait are woken when it has given the room back.
    #[test]
    fn s4_040_a_pod_that_shrinks_is_kept_with_what_it_still_holds() {
        let report = json!({ "name": "c", "allocatedResources": { "memory": "1Gi" },
            "resources": { "requests": { "memory": "4Gi" } } });
        let wanted = json!({ "requests": { "memory": "1Gi" } });
        let at_pod_level = json!({ "metadata": { "uid": "1" }, "status": report,
            "spec": { "nodeName": "one", "containers": [{ "name": "c" }], "resources": wanted } });
        let at_container_level = json!({ "metadata": { "uid": "1" }, "status": { "containerStatuses": [report] },
            "spec": { "nodeName": "one", "containers": [{ "name": "c", "resources": wanted }] } });
        for pod in [at_pod_level, at_container_level] {
            let pod: Arc<wire::Pod> = Arc::new(serde_json::from_value(pod).unwrap());
            let kept = wire::Pod::restore(&wire::Pod::keep(&pod, &mut Texts::default()));
            let request = |pod| requests::Requests::of(pod, Counted::Scheduled).get("memory");
            assert_eq!(request(&kept).to_string(), "4Gi");
            assert_eq!(request(&kept), request(&pod));
        }
    }

    #[test]
    fn a_pod_of_many_containers_counts_with_what_they_take_in_memory() {
        assert!(size_of::<wire::Container>() <= PART);
        let containers = vec![json!({ "name": "c", "image": "i" }); 10_000];
        for node in ["", "one"] {
            let pod = json!({ "spec": { "nodeName": node, "containers": containers } });
            let pod: wire::Pod = serde_json::from_value(pod).unwrap();
            let size = Object::size(&pod, 300_000);
            assert!(size > 9_000 * size_of::<wire::Container>(), "{size}");
        }
        // A field that is not kept takes nothing.
        let pod = json!({ "spec": { "containers": [{ "env": "x".repeat(1 << 20) }] } });
        let pod: wire::Pod = serde_json::from_value(pod).unwrap();
        assert!(Object::size(&pod, 1 << 20) < 8 << 10);
    }

    #[test]
    fn equal_pods_share_what_is_kept_and_what_nobody_has_is_forgotten() {
        let mut texts = Texts::default();
        let kept: Vec<KeptPod> = ["one", "two", "three"]
            .map(|node| wire::Pod::keep(&pod(node), &mut texts))
            .into();
        assert_eq!(
            (texts.specs.values.len(), texts.labels.values.len()),
            (1, 1)
        );
        drop(kept);
        for number in 0..3000 {
            texts.names.shared(number.to_string());
        }
        let left = texts.names.values.len();
        assert!(left < 1100, "{left}");
    }

    #[test]
    fn a_pod_that_waits_is_the_same_object() {
        let pod = pod("");
        let kept = wire::Pod::keep(&pod, &mut Texts::default());
        assert!(Arc::ptr_eq(&pod, &wire::Pod::restore(&kept)));
    }

    #[test]
    fn a_pod_has_one_place_whether_it_waits_or_has_a_node() {
        let mut texts = Texts::default();
        let mut keep = |node: &str| wire::Pod::keep(&pod(node), &mut texts);
        let mut known = KnownPods::default();
        assert!(known.insert(keep("")).is_none());
        let waited = known.insert(keep("one")).unwrap();
        assert!(matches!(waited, KeptPod::Waiting(_)));
        let placed = known.insert(keep("two")).unwrap();
        assert_eq!(wire::Pod::restore(&placed).spec.node_name, "one");
        let placed = known.insert(keep("")).unwrap();
        assert_eq!(wire::Pod::restore(&placed).spec.node_name, "two");
        assert_eq!(known.len(), 1);
        assert!(known.remove(["shop", "web"]).is_none());
        assert!(known.remove(["shop", "web-1"]).is_some());
        assert!(known.remove(["shop", "web-1"]).is_none());
        assert!(known.insert(keep("one")).is_none());
        assert_eq!(known.into_objects().count(), 1);
    }

    #[test]
    fn a_pod_that_has_changed_keeps_its_uid_once() {
        let before = KeptPod::Waiting(Whole(pod("")));
        let mut after = (*pod("")).clone();
        after.succeed(&before);
        let KeptPod::Waiting(before) = before else {
            panic!("it waits");
        };
        assert!(Arc::ptr_eq(&before.0.metadata.uid, &after.metadata.uid));
    }

    #[test]
    fn equal_pods_that_wait_share_spec_and_status_until_nobody_has_them() {
        let mut texts = Texts::default();
        let waiting = |texts: &mut Texts, name: &str, cpu: &str| {
            let volume = format!("kube-api-access-{name}");
            let pod = json!({ "metadata": { "name": name, "annotations": { "long": "text" } },
                "spec": { "volumes": [{ "name": volume, "projected": {} }, { "name": "disk", "ephemeral": {} }],
                    "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } });
            let mut pod: wire::Pod = serde_json::from_value(pod).unwrap();
            pod.tidy(texts);
            pod
        };
        let [one, two, other] = [("one", "1"), ("two", "1"), ("other", "2")]
            .map(|(name, cpu)| waiting(&mut texts, name, cpu));
        assert!(std::ptr::eq(&raw const *one.spec, &raw const *two.spec));
        assert!(std::ptr::eq(&raw const *one.status, &raw const *two.status));
        assert!(!std::ptr::eq(&raw const *one.spec, &raw const *other.spec));
        assert_eq!(
            (one.spec.volumes.len(), one.metadata.annotations.len()),
            (1, 0)
        );
        drop((one, two, other));
        for number in 0..3000 {
            waiting(&mut texts, "many", &number.to_string());
        }
        let left = texts.specs.values.len();
        assert!(left < 1100, "{left}");
    }
}
