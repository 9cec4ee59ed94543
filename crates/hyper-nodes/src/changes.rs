//! Which calls make the HyperNodes of a cluster agree with those that a source found (S6-243).

use super::object::{HyperNode, HyperNodeStatus, SOURCE_LABEL};
use std::collections::{BTreeMap, BTreeSet};

/// A call.
#[derive(Debug, Clone)]
pub enum Change {
    /// Creates the HyperNode.
    Create(HyperNode),
    /// Writes the HyperNode, and then its status.
    Update(HyperNode),
    /// Deletes the HyperNode of this name.
    Delete(String),
}

/// The HyperNode of the cluster with the found spec; labels and annotations are merged.
pub fn written(current: &HyperNode, found: &HyperNode) -> HyperNode {
    let mut written = current.clone();
    written.spec = found.spec.clone();
    written.status = HyperNodeStatus::default();
    written.metadata.labels.extend(&found.metadata.labels);
    written
        .metadata
        .annotations
        .extend(&found.metadata.annotations);
    written
}

/// The calls, in the order of the names. HyperNodes of other sources, and those that people wrote, are left alone. Volcano
/// writes those that are as they should be, too; `all` says so.
pub fn changes(
    source: &str,
    existing: &[&HyperNode],
    found: &[HyperNode],
    all: bool,
) -> Vec<Change> {
    let of_source = existing
        .iter()
        .filter(|known| known.metadata.labels.get(SOURCE_LABEL) == Some(source));
    let known: BTreeMap<&str, &HyperNode> = of_source
        .map(|known| (known.metadata.name.as_str(), *known))
        .collect();
    // Of several with one name the last counts.
    let wanted: BTreeMap<&str, &HyperNode> = found
        .iter()
        .map(|found| (found.metadata.name.as_str(), found))
        .collect();
    let names: BTreeSet<&str> = known.keys().chain(wanted.keys()).copied().collect();
    let change = |name: &str| match (known.get(name), wanted.get(name)) {
        (None, None) => None,
        (Some(_), None) => Some(Change::Delete(name.to_owned())),
        (known, Some(found)) => {
            let mut found = (*found).clone();
            found.metadata.labels.insert(SOURCE_LABEL, source);
            let Some(known) = known else {
                return Some(Change::Create(found));
            };
            let mut written = written(known, &found);
            let same = written.spec == known.spec
                && written.metadata.labels == known.metadata.labels
                && written.metadata.annotations == known.metadata.annotations;
            if !all {
                // The count is that of the members, which are the same or counted again after the write.
                written.status = known.status.clone();
            }
            (all || !same).then_some(Change::Update(written))
        }
    };
    names.into_iter().filter_map(change).collect()
}
