//! Places: nodes with the same value of one label are one. They are kept for every label that a selector in use names as its
//! topology, so that no decision passes over all nodes to find them.

use crate::id::NodeId;
use crate::labels::Labels;
use crate::symbol::Symbol;
use hashbrown::HashMap;
use std::sync::Arc;

/// The place of a node without the label.
const NOWHERE: u32 = u32::MAX;

/// Every place that a label makes, by a small index.
#[derive(Debug, Clone)]
pub(crate) struct Places {
    /// The label.
    pub(crate) key: Symbol,
    /// Of each node, its place.
    of: Vec<u32>,
    known: HashMap<Symbol, u32>,
    /// How many nodes each has; 0 for one that was left by all.
    pub(crate) nodes: Vec<u32>,
    /// How many there are, those that were left included.
    pub(crate) count: usize,
}

impl Places {
    fn new<'n>(key: Symbol, nodes: impl Iterator<Item = &'n Labels>) -> Self {
        let mut places = Self {
            key,
            of: Vec::new(),
            known: HashMap::new(),
            nodes: Vec::new(),
            count: 0,
        };
        for labels in nodes {
            places.of.push(NOWHERE);
            places.put(places.of.len() - 1, labels);
        }
        places
    }

    /// The place of a node; `None` if it has not the label.
    pub(crate) fn of(&self, id: NodeId) -> Option<usize> {
        let place = self.of[id.index()];
        (place != NOWHERE).then_some(place as usize)
    }

    /// Whether every node has the label.
    pub(crate) fn cover_all(&self) -> bool {
        let nodes: usize = self.nodes.iter().map(|count| *count as usize).sum();
        nodes == self.of.len()
    }

    /// Says where a node is now.
    fn put(&mut self, index: usize, labels: &Labels) {
        let place = labels.get(self.key).map_or(NOWHERE, |value| {
            // No more places than nodes that ever were here, whose ids are 32 bits.
            let next = u32::try_from(self.known.len()).unwrap_or(NOWHERE);
            *self.known.entry(value).or_insert(next)
        });
        self.count = self.known.len();
        self.nodes.resize(self.count, 0);
        let old = std::mem::replace(&mut self.of[index], place);
        if old != NOWHERE {
            self.nodes[old as usize] -= 1;
        }
        if place != NOWHERE {
            self.nodes[place as usize] += 1;
        }
    }
}

/// The places of every label that is in use as a topology.
#[derive(Debug, Default)]
pub(crate) struct Topologies(HashMap<Symbol, Topology>);

#[derive(Debug)]
struct Topology {
    places: Arc<Places>,
    references: usize,
}

impl Topologies {
    /// One more selector has this label as its topology.
    pub(crate) fn add<'n>(&mut self, key: Symbol, nodes: impl Iterator<Item = &'n Labels>) {
        let topology = self.0.entry(key).or_insert_with(|| Topology {
            places: Arc::new(Places::new(key, nodes)),
            references: 0,
        });
        topology.references += 1;
    }

    /// One less.
    pub(crate) fn remove(&mut self, key: Symbol) {
        if let Some(topology) = self.0.get_mut(&key) {
            topology.references -= 1;
            if topology.references == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// The places of a label; nobody has one that is not in use.
    pub(crate) fn of(&self, key: Symbol, nodes: usize) -> Arc<Places> {
        let topology = self.0.get(&key);
        topology.map_or_else(
            || {
                let nothing = Labels::default();
                Arc::new(Places::new(key, std::iter::repeat_n(&nothing, nodes)))
            },
            |topology| Arc::clone(&topology.places),
        )
    }

    /// A node came, as the last, or its labels changed.
    pub(crate) fn put(&mut self, id: NodeId, labels: &Labels) {
        for topology in self.0.values_mut() {
            let places = Arc::make_mut(&mut topology.places);
            if id.index() == places.of.len() {
                places.of.push(NOWHERE);
            }
            places.put(id.index(), labels);
        }
    }

    /// A node went, and the last one took its place.
    pub(crate) fn swap_remove<'n, L: Iterator<Item = &'n Labels>>(
        &mut self,
        id: NodeId,
        left: impl Fn() -> L,
    ) {
        for topology in self.0.values_mut() {
            let places = Arc::make_mut(&mut topology.places);
            places.put(id.index(), &Labels::default());
            places.of.swap_remove(id.index());
            // Places that were left by all are forgotten now and then.
            let deserted = places.nodes.iter().filter(|nodes| **nodes == 0).count();
            if deserted > 16 + places.count / 2 {
                *places = Places::new(places.key, left());
            }
        }
    }
}
