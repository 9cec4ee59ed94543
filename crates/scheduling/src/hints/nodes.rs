//! Hints of the plugins that depend on the node alone (S5-103).

use evictd_pod::requests::{Counted, Requests};
use evictd_pod::selector::NodeTerm;
use evictd_pod::wire::Taint;
use evictd_pod::wire::{Pod, Toleration};
use evictd_pod::{Node, ResourceList, resources};

/// `NodeUnschedulable`: the node is new and not cordoned, or no longer cordoned.
pub(super) fn uncordoned(old: Option<&Node>, new: &Node) -> bool {
    !new.spec.unschedulable && old.is_none_or(|old| old.spec.unschedulable)
}

/// `NodeUnschedulable`: the pod tolerates a cordoned node.
pub(super) fn tolerates_cordon(pod: &Pod) -> bool {
    Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    }
    .is_tolerated(&pod.spec.tolerations)
}

/// `TaintToleration`: the node has no taint, or no longer has one, that the pod does not tolerate.
pub(super) fn tolerated(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    let forbids = |node: &Node| forbids(node, &pod.spec.tolerations);
    !forbids(new) && old.is_none_or(forbids)
}

fn forbids(node: &Node, tolerations: &[Toleration]) -> bool {
    node.spec.taints.iter().any(|taint| {
        matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute")
            && !taint.is_tolerated(tolerations)
    })
}

/// `NodeAffinity`: the pod's selector and required affinity now select the node.
pub(super) fn affine(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    selected(pod, new) && old.is_none_or(|old| !selected(pod, old))
}

pub(super) fn selected(pod: &Pod, node: &Node) -> bool {
    let labels = &node.metadata.labels;
    let mut selector = pod.spec.node_selector.iter();
    let affinity = pod.spec.affinity.as_deref();
    let required = affinity.and_then(|affinity| affinity.node_affinity.required.as_ref());
    selector.all(|(key, value)| labels.get(key) == Some(value))
        && required.is_none_or(|required| {
            required.node_selector_terms.iter().any(|term| {
                let term = NodeTerm::new(term, &mut |text| text);
                term.is_ok_and(|term| term.matches(node.metadata.name.as_str(), &labels))
            })
        })
}

/// `NodeResourcesFit`: the empty node is large enough for the pod, and is new or has more of a requested resource.
pub(super) fn large_enough(pod: &Pod, old: Option<&Node>, new: &Node) -> bool {
    // The names are not copied, because a new node is compared with every waiting pod.
    let requests = Requests::of(pod, Counted::Scheduled);
    let requests = requests.each();
    let wanted = || {
        let units = requests
            .iter()
            .map(|(name, amount)| (*name, resources::units(name, *amount)));
        units.filter(|(_, amount)| *amount > 0)
    };
    let has = |node: &Node, name: &str| amount(&node.status.allocatable, name);
    let fits =
        has(new, resources::PODS) >= 1 && wanted().all(|(name, amount)| amount <= has(new, name));
    // If nothing has grown, the pod was rejected for what other pods use, which their own events report.
    fits && old.is_none_or(|old| {
        let grew = |name: &str| has(new, name) > has(old, name);
        grew(resources::PODS) || wanted().any(|(name, _)| grew(name))
    })
}

fn amount(list: &ResourceList, name: &str) -> i64 {
    list.get(name)
        .map_or(0, |amount| resources::units(name, *amount))
}
