//! Hints of `PodTopologySpread` (S5-104). A pod without constraints has the defaults of the system, none of which is hard.

use super::Hint;
use super::selection::selects;
use crate::change::{is_same, takes_room};
use evictd_pod::Node;
use evictd_pod::selector::SelectorError;
use evictd_pod::wire::{Pod, TopologySpreadConstraint};

fn hard(pod: &Pod) -> impl Iterator<Item = &TopologySpreadConstraint> {
    pod.spec
        .topology_spread_constraints
        .iter()
        .filter(|constraint| constraint.when_unsatisfiable == "DoNotSchedule")
}

/// Whether a constraint of the pod counts the other one.
fn counts(
    pod: &Pod,
    constraint: &TopologySpreadConstraint,
    other: &Pod,
) -> Result<bool, SelectorError> {
    let (pod_labels, labels) = (&pod.metadata.labels, &other.metadata.labels);
    let is_alike = constraint.match_label_keys.iter().all(|key| {
        pod_labels
            .get(key)
            .is_none_or(|value| labels.get(key) == Some(value))
    });
    Ok(selects(constraint.label_selector.as_ref(), labels)? && is_alike)
}

/// Whether the constraints of the pod can count the other one.
pub(super) fn concerns(pod: &Pod, other: &Pod) -> bool {
    let (this, other_metadata) = (&pod.metadata, &other.metadata);
    is_same(this, other_metadata)
        || (takes_room(other)
            && this.namespace_or_default() == other_metadata.namespace_or_default())
}

/// A pod that the constraints count was added or deleted.
pub(super) fn on_other_pod(pod: &Pod, other: &Pod) -> Hint {
    if !concerns(pod, other) {
        return Ok(false);
    }
    for constraint in hard(pod) {
        if counts(pod, constraint, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A pod begins or ceases to be counted, or changed tolerations decide which nodes count.
pub(super) fn on_changed_pod(pod: &Pod, old: &Pod, new: &Pod) -> Hint {
    if !concerns(pod, old) || !concerns(pod, new) {
        return Ok(false);
    }
    // With this policy the tolerations decide which nodes count.
    let mut honour = hard(pod).map(|constraint| constraint.node_taints_policy == "Honor");
    if is_same(&pod.metadata, &new.metadata)
        && old.spec.tolerations != new.spec.tolerations
        && honour.any(|honours| honours)
    {
        return Ok(true);
    }
    if old.metadata.labels == new.metadata.labels {
        return Ok(false);
    }
    for constraint in hard(pod) {
        if counts(pod, constraint, old)? != counts(pod, constraint, new)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A node with every topology key was added or deleted, or a node gained, lost or changed a key, or its taints changed.
#[allow(clippy::unnecessary_wraps, reason = "one signature for every hint")]
pub(super) fn on_node(pod: &Pod, old: Option<&Node>, new: Option<&Node>) -> Hint {
    let value = |node: &Node, constraint: &TopologySpreadConstraint| {
        node.metadata
            .labels
            .get(&constraint.topology_key)
            .map(str::to_owned)
    };
    let has_all = |node: &Node| hard(pod).all(|constraint| value(node, constraint).is_some());
    let (Some(old), Some(new)) = (old, new) else {
        return Ok(old.or(new).is_some_and(has_all));
    };
    let moved = || hard(pod).any(|constraint| value(old, constraint) != value(new, constraint));
    Ok(has_all(old) != has_all(new)
        || (has_all(new) && (moved() || old.spec.taints != new.spec.taints)))
}
