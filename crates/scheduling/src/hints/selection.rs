//! Selectors, evaluated on objects as they come.

use evictd_pod::selector::{Requirement, SelectorError};
use evictd_pod::wire::{Pod, PodAffinityTerm, Selector, TextMap};

/// Whether the labels are selected; an absent selector selects nothing.
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

/// Whether a term of the pod `own` means the other pod. Labels of namespaces are not known here, so that a selector of
/// namespaces that asks for one means none (S5-104).
pub(super) fn means(term: &PodAffinityTerm, own: &Pod, other: &Pod) -> Result<bool, SelectorError> {
    let namespace = other.metadata.namespace_or_default();
    let own_namespace = term.namespaces.is_empty()
        && term.namespace_selector.is_none()
        && own.metadata.namespace_or_default() == namespace;
    let listed = term.namespaces.iter().any(|listed| listed == namespace);
    let there =
        own_namespace || listed || selects(term.namespace_selector.as_ref(), &TextMap::new())?;
    Ok(there && selects(term.label_selector.as_ref(), &other.metadata.labels)?)
}

/// Whether all terms mean the other pod; without terms, no.
pub(super) fn all_mean(
    terms: &[PodAffinityTerm],
    own: &Pod,
    other: &Pod,
) -> Result<bool, SelectorError> {
    for term in terms {
        if !means(term, own, other)? {
            return Ok(false);
        }
    }
    Ok(!terms.is_empty())
}
