//! What kube-scheduler's hints overlook: changes that can make room for a pod, for which it nevertheless leaves the pod to
//! the flush after five minutes.

use super::devices::uses;
use super::nodes::selected;
use super::selection::selects;
use super::topology_spread::concerns;
use super::volumes::{cannot_share, has_no_limit};
use crate::change::{Change, Delta, takes_room};
use crate::events::ClusterEvent;
use crate::plugins::PluginName;
use evictd_pod::wire::{Pod, PodAffinityTerm};

/// Whether the event may make room for a pod that this plugin rejected, if it registered the event.
pub(super) fn wakes(plugin: PluginName, pod: &Pod, event: &ClusterEvent) -> bool {
    match (plugin, &event.change) {
        (PluginName::InterPodAffinity, Change::Pod(delta)) => states(delta).any(|other| {
            takes_room(other) && (terms(pod).any(|term| may_mean(term, other)) || shuns(other, pod))
        }),
        // Without constraints of its own it has those of the profile.
        (PluginName::PodTopologySpread, Change::Pod(delta)) => {
            pod.spec.topology_spread_constraints.is_empty()
                && states(delta).any(|other| concerns(pod, other))
        }
        // The affinity that the profile adds may be met now, where that of the pod was before.
        (PluginName::NodeAffinity, Change::Node(delta)) => {
            delta.new.as_deref().is_some_and(|node| selected(pod, node))
        }
        // Disks know no namespaces.
        (PluginName::VolumeRestrictions, Change::Pod(delta)) => states(delta).any(|other| {
            let (mut own, others) = (pod.spec.volumes.iter(), &other.spec.volumes);
            own.any(|own| others.iter().any(|other| cannot_share(own, other)))
        }),
        // Disks that a pod names itself may be attached by a driver with a limit.
        (PluginName::NodeVolumeLimits, Change::Pod(delta)) => {
            states(delta).any(|other| !other.spec.volumes.is_empty())
        }
        (PluginName::NodeVolumeLimits, Change::VolumeAttachment(_)) => !pod.spec.volumes.is_empty(),
        (PluginName::NodeVolumeLimits, Change::CsiNode(delta)) => {
            delta.new.as_deref().is_some_and(has_no_limit)
        }
        // A claim that was made for another pod is given to this one.
        (PluginName::DynamicResources, Change::ResourceClaim(delta)) => delta
            .old
            .as_deref()
            .zip(delta.new.as_deref())
            .is_some_and(|(old, new)| {
                uses(pod, new) && old.metadata.owner_references != new.metadata.owner_references
            }),
        // The pods that do not want this pod near are asked nowhere; and a domain that goes or comes counts for the
        // lowest number of pods in any. A volume that is made for a claim needs room as much as one that is made for
        // the pod; and room may now be for other nodes.
        (PluginName::InterPodAffinity | PluginName::PodTopologySpread, Change::Node(_))
        | (
            PluginName::VolumeBinding,
            Change::CsiDriver(_) | Change::CsiStorageCapacity(_) | Change::CsiNode(_),
        ) => true,
        _ => false,
    }
}

/// The other pod as it was and as it is.
fn states(delta: &Delta<Pod>) -> impl Iterator<Item = &Pod> {
    delta.old.iter().chain(&delta.new).map(|pod| &**pod)
}

/// The terms of its affinity and anti-affinity. A pod that one anti-affinity term means is in the way; and one that goes
/// may have been the last that kept the pod from being the first of its group.
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

/// Whether the other pod does not want this one near.
fn shuns(other: &Pod, pod: &Pod) -> bool {
    unwanted(other).iter().any(|term| may_mean(term, pod))
}

/// Whether a term means the pod, in whatever namespace. A selector that cannot be read may mean any.
fn may_mean(term: &PodAffinityTerm, pod: &Pod) -> bool {
    selects(term.label_selector.as_ref(), &pod.metadata.labels).unwrap_or(true)
}
