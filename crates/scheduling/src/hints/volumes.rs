//! Hints of the volume plugins (S5-105).

use crate::change::{Change, Delta, takes_room};
use crate::plugins::PluginName;
use evictd_pod::wire::{self, ClaimReference, NamedDisk, Pod, Volume};

/// A storage object was added, updated or deleted.
pub(super) fn on_storage(plugin: PluginName, pod: &Pod, change: &Change) -> bool {
    match (plugin, change) {
        (_, Change::PersistentVolumeClaim(delta)) => {
            let claim = delta.new.as_deref().or(delta.old.as_deref());
            claim.is_some_and(|claim| uses(pod, &claim.metadata))
        }
        (PluginName::VolumeZone, Change::PersistentVolume(delta)) => {
            changed(delta, |volume| zones(&volume.metadata))
        }
        (PluginName::VolumeZone, Change::StorageClass(delta)) => {
            let class = delta.new.as_deref();
            class.is_some_and(|class| class.volume_binding_mode == "WaitForFirstConsumer")
        }
        (_, Change::StorageClass(delta)) => {
            changed(delta, |class| class.allowed_topologies.clone())
        }
        (PluginName::NodeVolumeLimits, Change::CsiNode(delta)) => {
            delta.both().is_none_or(|(old, new)| raises_limit(old, new))
        }
        (_, Change::CsiNode(delta)) => changed(delta, |node| {
            let migrated = "storage.alpha.kubernetes.io/migrated-plugins";
            node.metadata.annotations.get(migrated).map(str::to_owned)
        }),
        (_, Change::CsiStorageCapacity(delta)) => {
            delta.both().is_none_or(|(old, new)| raises_room(old, new))
        }
        (_, Change::CsiDriver(delta)) => delta.both().is_some_and(|(old, new)| {
            let mut drivers = pod
                .spec
                .volumes
                .iter()
                .filter_map(|volume| volume.csi.as_deref());
            old.spec.storage_capacity
                && !new.spec.storage_capacity
                && drivers.any(|volume| volume.driver == new.metadata.name)
        }),
        (_, Change::VolumeAttachment(_)) => pod
            .spec
            .volumes
            .iter()
            .any(|volume| volume.persistent_volume_claim.is_some()),
        _ => true,
    }
}

/// Whether the object is new, or this part of it has changed.
fn changed<T, P: PartialEq>(delta: &Delta<T>, part: impl Fn(&T) -> P) -> bool {
    delta.both().is_none_or(|(old, new)| part(old) != part(new))
}

/// Whether a volume of the pod uses this claim.
fn uses(pod: &Pod, claim: &wire::Metadata) -> bool {
    let is_it = |volume: &Volume| match &volume.persistent_volume_claim {
        Some(ClaimReference { claim_name }) => *claim_name == claim.name,
        None => {
            volume.ephemeral.is_some()
                && format!("{}-{}", pod.metadata.name, volume.name) == claim.name
        }
    };
    pod.metadata.namespace_or_default() == claim.namespace_or_default()
        && pod.spec.volumes.iter().any(is_it)
}

/// The zone and region labels of a volume.
fn zones(volume: &wire::Metadata) -> Vec<Option<String>> {
    [
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
    ]
    .into_iter()
    .map(|key| volume.labels.get(key))
    .map(|label| label.map(str::to_owned))
    .collect()
}

/// Whether a driver can attach more volumes than before. As in kube-scheduler, a driver without a limit counts as zero.
fn raises_limit(old: &wire::CsiNode, new: &wire::CsiNode) -> bool {
    let limit = |node: &wire::CsiNode, name: &str| {
        let driver = node.spec.drivers.iter().find(|driver| driver.name == name);
        driver.and_then(|driver| driver.allocatable.count)
    };
    new.spec
        .drivers
        .iter()
        .any(|driver| limit(new, &driver.name).unwrap_or(0) > limit(old, &driver.name).unwrap_or(0))
}

/// Whether a driver of the node has no attach limit.
pub(super) fn has_no_limit(node: &wire::CsiNode) -> bool {
    node.spec
        .drivers
        .iter()
        .any(|driver| driver.allocatable.count.is_none())
}

/// Whether larger volumes can be provisioned than before.
fn raises_room(old: &wire::CsiStorageCapacity, new: &wire::CsiStorageCapacity) -> bool {
    let room = |capacity: &wire::CsiStorageCapacity| {
        let largest = capacity.maximum_volume_size.or(capacity.capacity);
        largest.map(|largest| largest.value())
    };
    room(new) > room(old)
}

/// `VolumeRestrictions`: the deleted pod used a disk that it could not share with this pod, or a claim of this pod.
pub(super) fn frees_disk(pod: &Pod, deleted: &Pod) -> bool {
    if pod.metadata.namespace_or_default() != deleted.metadata.namespace_or_default() {
        return false;
    }
    let conflict = |volume: &Volume, other: &Volume| {
        let claims = (
            &volume.persistent_volume_claim,
            &other.persistent_volume_claim,
        );
        let is_same_claim = matches!(claims, (Some(claim), Some(other)) if claim == other);
        is_same_claim || cannot_share(volume, other)
    };
    pod.spec.volumes.iter().any(|volume| {
        deleted
            .spec
            .volumes
            .iter()
            .any(|other| conflict(volume, other))
    })
}

/// Whether two pods with these volumes cannot run on one node.
pub(super) fn cannot_share(one: &Volume, other: &Volume) -> bool {
    let clash = |one: &Option<Box<NamedDisk>>, other: &Option<Box<NamedDisk>>, readers: bool| {
        let (Some(one), Some(other)) = (one, other) else {
            return false;
        };
        let same = (&one.name, &one.pool) == (&other.name, &other.pool);
        let mut monitors = one.monitors.iter();
        let shares_monitor =
            one.monitors.is_empty() || monitors.any(|monitor| other.monitors.contains(monitor));
        same && shares_monitor && !(readers && one.read_only && other.read_only)
    };
    clash(
        &one.aws_elastic_block_store,
        &other.aws_elastic_block_store,
        false,
    ) || clash(&one.gce_persistent_disk, &other.gce_persistent_disk, true)
        || clash(&one.iscsi, &other.iscsi, true)
        || clash(&one.rbd, &other.rbd, true)
}

/// `NodeVolumeLimits`: the deleted pod used a claim, whose volume can be detached.
pub(super) fn frees_attachment(deleted: &Pod) -> bool {
    let mut volumes = deleted.spec.volumes.iter();
    takes_room(deleted)
        && volumes
            .any(|volume| volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some())
}
