//! Parts of a cluster that a whole group must be in.

use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes on which a group may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Domain {
    Everywhere,
    /// By [`NodeId::index`].
    Nodes(Vec<bool>),
}

impl Domain {
    pub(crate) fn contains(&self, id: NodeId) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Nodes(nodes) => nodes.get(id.index()).is_some_and(|own| *own),
        }
    }
}

/// The domains among which a group has the choice, by the values of its labels in alphabetical order. Where some of its
/// pods have nodes already, only theirs is left. Nodes without one of the labels are in none.
pub(crate) fn domains<'n>(
    cluster: &Cluster,
    group: &wire::PodGroup,
    taken: impl Iterator<Item = &'n str>,
) -> Vec<Domain> {
    let keys = group.spec.scheduling_constraints.topology.iter();
    let keys: Vec<&str> = keys.map(|own| own.key.as_str()).collect();
    if keys.is_empty() {
        return vec![Domain::Everywhere];
    }
    let value = |id: NodeId| -> Option<Vec<&str>> {
        let labels = &cluster.node(id).labels;
        let values = keys.iter().map(|key| {
            let value = labels.get(cluster.symbols().get(key)?)?;
            Some(cluster.symbols().text(value))
        });
        values.collect()
    };
    let taken = taken.filter_map(|name| value(cluster.find_node(name)?));
    let taken: BTreeSet<Vec<&str>> = taken.collect();
    let mut found: BTreeMap<Vec<&str>, Vec<bool>> = BTreeMap::new();
    for id in cluster.node_ids() {
        if let Some(own) = value(id).filter(|own| taken.is_empty() || taken.contains(own)) {
            let nodes = found
                .entry(own)
                .or_insert_with(|| vec![false; cluster.nodes().len()]);
            nodes[id.index()] = true;
        }
    }
    found.into_values().map(Domain::Nodes).collect()
}
