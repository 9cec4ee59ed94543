//! Hints of `InterPodAffinity` (S5-104).

use super::Verdict;
use super::selection::all_mean;
use crate::change::{is_same, takes_room};
use evictd_pod::Node;
use evictd_pod::wire::{Pod, PodAffinityTerm};

fn affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.pod_affinity.required)
}

fn anti_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.pod_anti_affinity.required)
}

/// The new pod is one that this pod wants near.
pub(super) fn on_new_pod(pod: &Pod, new: &Pod) -> Verdict {
    Ok(takes_room(new) && all_mean(affinity(pod), pod, new)?)
}

/// The deleted pod is one that this pod does not want near, or that did not want this pod near.
pub(super) fn on_deleted_pod(pod: &Pod, old: &Pod) -> Verdict {
    Ok(takes_room(old)
        && (all_mean(anti_affinity(pod), pod, old)? || all_mean(anti_affinity(old), old, pod)?))
}

/// The pod's own labels changed, or another pod became one that it wants near, or is no longer one that it does not.
pub(super) fn on_changed_pod(pod: &Pod, old: &Pod, new: &Pod) -> Verdict {
    if is_same(&pod.metadata, &new.metadata) {
        return Ok(true);
    }
    if !takes_room(new) {
        return Ok(false);
    }
    let (wanted, unwanted) = (affinity(pod), anti_affinity(pod));
    Ok(
        (!all_mean(wanted, pod, old)? && all_mean(wanted, pod, new)?)
            || (all_mean(unwanted, pod, old)? && !all_mean(unwanted, pod, new)?),
    )
}

/// The node is or becomes part of a domain in which pods are wanted, or leaves one in which they are not.
pub(super) fn on_node(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    let value = |node: &Node, term: &PodAffinityTerm| {
        node.metadata
            .labels
            .get(&term.topology_key)
            .map(str::to_owned)
    };
    let Some(old) = old else {
        let mut wanted = affinity(pod).iter();
        return !anti_affinity(pod).is_empty() || wanted.any(|term| value(new, term).is_some());
    };
    let mut joins = affinity(pod).iter();
    let mut leaves = anti_affinity(pod).iter();
    joins.any(|term| value(new, term).is_some() && value(old, term) != value(new, term))
        || leaves.any(|term| value(old, term).is_some() && value(old, term) != value(new, term))
}
