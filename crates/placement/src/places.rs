//! Places: nodes with the same value of one label are one.

use crate::cluster::Cluster;
use crate::node::NodeId;
use crate::symbol::Symbol;
use hashbrown::HashMap;

/// The place of a node without the label.
const NOWHERE: u32 = u32::MAX;

/// Every place that a label makes, by a small index.
pub(crate) struct Places {
    /// The label.
    pub(crate) key: Symbol,
    /// Of each node, its place.
    of: Box<[u32]>,
    /// How many there are.
    pub(crate) count: usize,
}

impl Places {
    pub(crate) fn new(cluster: &Cluster, key: Symbol) -> Self {
        let mut known: HashMap<Symbol, u32> = HashMap::new();
        let nodes = cluster.nodes().iter();
        let of = nodes.map(|node| match node.labels.get(key) {
            None => NOWHERE,
            Some(value) => {
                // No more places than nodes, whose ids are 32 bits.
                let next = u32::try_from(known.len()).unwrap_or(NOWHERE);
                *known.entry(value).or_insert(next)
            }
        });
        let of = of.collect();
        Self {
            key,
            of,
            count: known.len(),
        }
    }

    /// The place of a node; `None` if it has not the label.
    pub(crate) fn of(&self, id: NodeId) -> Option<usize> {
        let place = self.of[id.index()];
        (place != NOWHERE).then_some(place as usize)
    }
}
