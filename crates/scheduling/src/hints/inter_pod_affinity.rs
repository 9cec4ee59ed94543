//! Hints of `InterPodAffinity` (S5-104).

use super::Hint;
use super::selection::{all_match, selects};
use crate::change::{Delta, is_same, takes_room};
use evictd_pod::Node;
use evictd_pod::wire::{Namespace, Pod, PodAffinityTerm};
use std::sync::Arc;

fn affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.pod_affinity.required)
}

fn anti_affinity(pod: &Pod) -> &[PodAffinityTerm] {
    let affinity = pod.spec.affinity.as_deref();
    affinity.map_or(&[], |affinity| &affinity.pod_anti_affinity.required)
}

/// The new pod matches the affinity of this pod.
pub(super) fn on_new_pod(pod: &Pod, new: &Pod) -> Hint {
    Ok(takes_room(new) && all_match(affinity(pod), pod, new)?)
}

/// The deleted pod matches the anti-affinity of this pod, or this pod matches that of the deleted one.
pub(super) fn on_deleted_pod(pod: &Pod, old: &Pod) -> Hint {
    Ok(takes_room(old)
        && (all_match(anti_affinity(pod), pod, old)? || all_match(anti_affinity(old), old, pod)?))
}

/// The pod itself changed, or another pod begins to match its affinity, or no longer matches its anti-affinity.
pub(super) fn on_changed_pod(pod: &Pod, old: &Pod, new: &Pod) -> Hint {
    if is_same(&pod.metadata, &new.metadata) {
        return Ok(true);
    }
    if !takes_room(new) {
        return Ok(false);
    }
    let (wanted, unwanted) = (affinity(pod), anti_affinity(pod));
    Ok(
        (!all_match(wanted, pod, old)? && all_match(wanted, pod, new)?)
            || (all_match(unwanted, pod, old)? && !all_match(unwanted, pod, new)?),
    )
}

/// The node joins a topology domain of the affinity, or leaves one of the anti-affinity.
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

/// The namespace begins or ceases to match a term of the pod. Or it is the pod's own: then the anti-affinity of other pods may
/// cease to match it.
pub(super) fn on_namespace(pod: &Pod, delta: &Delta<Namespace>) -> bool {
    let Some(object) = delta.new.as_deref().or(delta.old.as_deref()) else {
        return false;
    };
    let name = &object.metadata.name;
    let labels = |namespace: &Option<Arc<Namespace>>| match namespace {
        Some(namespace) => namespace.metadata.labels.clone(),
        // Only the name is known of a namespace that does not exist.
        None => [("kubernetes.io/metadata.name".to_owned(), name.clone())]
            .into_iter()
            .collect(),
    };
    let (old, new) = (labels(&delta.old), labels(&delta.new));
    let mut terms = affinity(pod).iter().chain(anti_affinity(pod));
    pod.metadata.namespace_or_default() == name
        || terms.any(|term| {
            let selector = term.namespace_selector.as_ref();
            // An invalid selector may match any namespace.
            match (selects(selector, &old), selects(selector, &new)) {
                (Ok(old), Ok(new)) => old != new,
                _ => true,
            }
        })
}
