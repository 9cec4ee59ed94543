//! Events that the hints of kube-scheduler overlook: they can make a pod schedulable, but there the pod waits for the flush after
//! five minutes.

use super::devices::uses;
use super::inter_pod_affinity;
use super::nodes::selected;
use super::selection::selects;
use super::topology_spread::{concerns, on_other_pod};
use super::volumes::{cannot_share, has_no_limit};
use crate::change::{Change, Delta, takes_room};
use crate::events::{ClusterEvent, Kind};
use crate::plugins::{PluginName, PluginSet};
use evictd_devices::{Binding, binding};
use evictd_pod::wire::{Metadata, Pod, PodAffinityTerm, ResourceClaim};

/// The plugins whose pods kube-scheduler never wakes by the event.
pub(super) fn registered(kind: Kind) -> PluginSet {
    let plugins: &[PluginName] = match kind {
        // With the node its pods count no more, so that the pod may be the first of its group.
        Kind::NodeDelete | Kind::Namespace => &[PluginName::InterPodAffinity],
        // A pod that begins to terminate counts no more for constraints.
        Kind::PodUpdate
        | Kind::PodScaleDown
        | Kind::PodGeneratedClaim
        | Kind::Service
        | Kind::ReplicationController
        | Kind::ReplicaSet
        | Kind::StatefulSet => &[PluginName::PodTopologySpread],
        Kind::CsiDriverAdd | Kind::StorageDelete => &[
            PluginName::VolumeRestrictions,
            PluginName::NodeVolumeLimits,
            PluginName::VolumeBinding,
            PluginName::VolumeZone,
        ],
        Kind::SliceDelete => &[PluginName::DynamicResources],
        _ => &[],
    };
    plugins.iter().copied().collect()
}

/// Whether the event may make a pod schedulable that this plugin rejected. The plugin must have registered the event.
pub(super) fn wakes(plugin: PluginName, pod: &Pod, event: &ClusterEvent) -> bool {
    // They are rare: another capacity, limit or pool may count without the object.
    if matches!(
        event.kind,
        Kind::CsiDriverAdd | Kind::StorageDelete | Kind::SliceDelete
    ) {
        return true;
    }
    match (plugin, &event.change) {
        (PluginName::InterPodAffinity, Change::Pod(delta)) => states(delta).any(|other| {
            takes_room(other)
                && (terms(pod).any(|term| may_match(term, other)) || excludes(other, pod))
        }),
        // A pod without constraints has those of the profile.
        (PluginName::PodTopologySpread, Change::Pod(delta)) => {
            let has_defaults = has_defaults(pod);
            let changes_counts = match event.kind {
                Kind::PodAdd | Kind::PodDelete | Kind::PodLabel | Kind::PodToleration => {
                    has_defaults
                }
                _ => false,
            };
            let ends = begins_to_terminate(delta) && (has_defaults || is_counted(pod, delta));
            (changes_counts || ends) && states(delta).any(|other| concerns(pod, other))
        }
        // The hint ignores the affinity that the profile adds, which the node may match only now.
        (PluginName::NodeAffinity, Change::Node(delta)) => {
            delta.new.as_deref().is_some_and(|node| selected(pod, node))
        }
        // The hint ignores pods of other namespaces, but disks have none.
        (PluginName::VolumeRestrictions, Change::Pod(delta)) => states(delta).any(|other| {
            let (mut volumes, others) = (pod.spec.volumes.iter(), &other.spec.volumes);
            volumes.any(|volume| others.iter().any(|other| cannot_share(volume, other)))
        }),
        (PluginName::InterPodAffinity, Change::Namespace(delta)) => {
            inter_pod_affinity::on_namespace(pod, delta)
        }
        // A pod without constraints has those of the profile for the selectors of its services and owners.
        (
            PluginName::PodTopologySpread,
            Change::Service(delta) | Change::ReplicationController(delta),
        ) => has_defaults(pod) && is_beside(pod, delta, |service| &service.metadata),
        (PluginName::PodTopologySpread, Change::ReplicaSet(delta) | Change::StatefulSet(delta)) => {
            has_defaults(pod) && is_beside(pod, delta, |workload| &workload.metadata)
        }
        // Inline volumes may be attached by a driver with a limit, too.
        (PluginName::NodeVolumeLimits, Change::Pod(delta)) => {
            states(delta).any(|other| !other.spec.volumes.is_empty())
        }
        (PluginName::NodeVolumeLimits, Change::VolumeAttachment(_)) => !pod.spec.volumes.is_empty(),
        (PluginName::NodeVolumeLimits, Change::CsiNode(delta)) => {
            delta.new.as_deref().is_some_and(has_no_limit)
        }
        // The owner of a claim may change to this pod, and another claim may have the name of one that was being deleted. Between
        // two versions that the watch shows, a claim may have got other devices, which other nodes can use. A driver may bind devices
        // that were late, or of which it has said that it cannot.
        (PluginName::DynamicResources, Change::ResourceClaim(delta)) => delta
            .old
            .as_deref()
            .zip(delta.new.as_deref())
            .is_some_and(|(old, new)| {
                uses(pod, new)
                    && (old.metadata.owner_references != new.metadata.owner_references
                        || old.metadata.uid != new.metadata.uid
                        || has_usable_devices(old, new))
            }),
        // The hint ignores the anti-affinity of other pods, and that a domain which appears or disappears changes the minimum
        // of all domains. It also ignores the capacity for volumes of claims, and capacity that is now available to other
        // nodes.
        (PluginName::InterPodAffinity | PluginName::PodTopologySpread, Change::Node(_))
        | (
            PluginName::VolumeBinding,
            Change::CsiDriver(_) | Change::CsiStorageCapacity(_) | Change::CsiNode(_),
        ) => true,
        _ => false,
    }
}

/// Whether an allocated claim has other devices, or its devices may be bound only now.
fn has_usable_devices(old: &ResourceClaim, new: &ResourceClaim) -> bool {
    let (had, has) = (&old.status.allocation, &new.status.allocation);
    let mut both = had.iter().zip(has);
    both.any(|(had, has)| {
        let (was, is) = (binding(had, &old.status), binding(has, &new.status));
        !had.has_devices_of(has) || (was != is && !matches!(is, Binding::Failed(..)))
    })
}

fn begins_to_terminate(delta: &Delta<Pod>) -> bool {
    let terminates = |other: &Pod| other.metadata.deletion_timestamp.is_some();
    let both = delta.both();
    both.is_some_and(|(old, new)| !terminates(old) && terminates(new))
}

/// Whether a constraint of the pod counts the other one. An invalid selector may count any pod.
fn is_counted(pod: &Pod, delta: &Delta<Pod>) -> bool {
    states(delta).any(|other| on_other_pod(pod, other).unwrap_or(true))
}

fn has_defaults(pod: &Pod) -> bool {
    pod.spec.topology_spread_constraints.is_empty()
}

/// Whether the object is in the namespace of the pod.
fn is_beside<T>(pod: &Pod, delta: &Delta<T>, metadata: impl Fn(&T) -> &Metadata) -> bool {
    let object = delta.new.as_deref().or(delta.old.as_deref()).map(metadata);
    let namespace = pod.metadata.namespace_or_default();
    object.is_some_and(|object| object.namespace_or_default() == namespace)
}

/// The pod before and after the change.
fn states(delta: &Delta<Pod>) -> impl Iterator<Item = &Pod> {
    delta.old.iter().chain(&delta.new).map(|pod| &**pod)
}

/// The terms of its affinity and anti-affinity. The deletion of a pod that matches an affinity term can help, too: the first pod
/// of a group is exempt from its affinity to the group.
fn terms(pod: &Pod) -> impl Iterator<Item = &PodAffinityTerm> {
    let affinity = pod.spec.affinity.as_deref();
    affinity
        .map_or(&[][..], |affinity| &affinity.pod_affinity.required)
        .iter()
        .chain(unwanted(pod))
}

fn unwanted(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.pod_anti_affinity.required)
}

/// Whether the anti-affinity of the other pod matches this one.
fn excludes(other: &Pod, pod: &Pod) -> bool {
    unwanted(other).iter().any(|term| may_match(term, pod))
}

/// Whether a term matches the pod in some namespace. An invalid selector may match any pod.
fn may_match(term: &PodAffinityTerm, pod: &Pod) -> bool {
    selects(term.label_selector.as_ref(), &pod.metadata.labels).unwrap_or(true)
}
