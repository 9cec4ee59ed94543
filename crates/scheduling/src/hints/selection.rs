//! Selectors, evaluated without compilation on objects of events.

use evictd_pod::selector::{Requirement, SelectorError};
use evictd_pod::wire::{Pod, PodAffinityTerm, Selector, TextMap};

/// An absent selector selects nothing.
pub(super) fn selects(
    selector: Option<&Selector>,
    labels: &TextMap,
) -> Result<bool, SelectorError> {
    let Some(selector) = selector else {
        return Ok(false);
    };
    let mut matched = selector
        .match_labels
        .iter()
        .all(|(key, value)| labels.get(key) == Some(value));
    for requirement in &selector.match_expressions {
        let requirement = Requirement::new(requirement, &mut |text| text)?;
        matched &= requirement.matches(&labels);
    }
    Ok(matched)
}

/// Whether a term of the pod matches the other pod. The labels of namespaces are unknown here, so a namespace selector with
/// requirements matches none (S5-104).
pub(super) fn matches(
    term: &PodAffinityTerm,
    pod: &Pod,
    other: &Pod,
) -> Result<bool, SelectorError> {
    let namespace = other.metadata.namespace_or_default();
    let in_same_namespace = term.namespaces.is_empty()
        && term.namespace_selector.is_none()
        && pod.metadata.namespace_or_default() == namespace;
    let listed = term.namespaces.iter().any(|listed| listed == namespace);
    let there =
        in_same_namespace || listed || selects(term.namespace_selector.as_ref(), &TextMap::new())?;
    Ok(there && selects(term.label_selector.as_ref(), &other.metadata.labels)?)
}

/// Whether all terms match the other pod. Without terms none does.
pub(super) fn all_match(
    terms: &[PodAffinityTerm],
    pod: &Pod,
    other: &Pod,
) -> Result<bool, SelectorError> {
    for term in terms {
        if !matches(term, pod, other)? {
            return Ok(false);
        }
    }
    Ok(!terms.is_empty())
}
