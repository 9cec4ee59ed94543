//! Topology domains of each label that a selector in use names as its topology key. They are kept up to date, so that
//! no decision scans all nodes to find them.

use crate::id::NodeId;
use crate::labels::Labels;
use crate::symbol::Symbol;
use hashbrown::HashMap;
use std::sync::Arc;

/// Marks a node without the label.
const NO_DOMAIN: u32 = u32::MAX;

/// The topology domains of a label, by a dense index.
#[derive(Debug, Clone)]
pub(crate) struct TopologyDomains {
    /// The topology key.
    pub(crate) key: Symbol,
    /// The domain of each node.
    of: Vec<u32>,
    known: HashMap<Symbol, u32>,
    /// How many nodes each domain has; 0 for an empty one.
    pub(crate) nodes: Vec<u32>,
    /// How many domains there are, with the empty ones.
    pub(crate) count: usize,
}

impl TopologyDomains {
    fn new<'n>(key: Symbol, nodes: impl Iterator<Item = &'n Labels>) -> Self {
        let mut domains = Self {
            key,
            of: Vec::new(),
            known: HashMap::new(),
            nodes: Vec::new(),
            count: 0,
        };
        for labels in nodes {
            domains.of.push(NO_DOMAIN);
            domains.put(domains.of.len() - 1, labels);
        }
        domains
    }

    /// The domain of a node; `None` if it lacks the label.
    pub(crate) fn of(&self, id: NodeId) -> Option<usize> {
        let domain = self.of[id.index()];
        (domain != NO_DOMAIN).then_some(domain as usize)
    }

    /// Whether every node has the label.
    pub(crate) fn cover_all(&self) -> bool {
        let nodes: usize = self.nodes.iter().map(|count| *count as usize).sum();
        nodes == self.of.len()
    }

    /// Sets the domain of a node.
    fn put(&mut self, index: usize, labels: &Labels) {
        let domain = labels.get(self.key).map_or(NO_DOMAIN, |value| {
            // Domains never outnumber nodes, and node ids have 32 bits.
            let next = u32::try_from(self.known.len()).unwrap_or(NO_DOMAIN);
            *self.known.entry(value).or_insert(next)
        });
        self.count = self.known.len();
        self.nodes.resize(self.count, 0);
        let old = std::mem::replace(&mut self.of[index], domain);
        if old != NO_DOMAIN {
            self.nodes[old as usize] -= 1;
        }
        if domain != NO_DOMAIN {
            self.nodes[domain as usize] += 1;
        }
    }
}

/// The topology domains of every topology key in use.
#[derive(Debug, Default)]
pub(crate) struct Topologies(HashMap<Symbol, Topology>);

#[derive(Debug)]
struct Topology {
    domains: Arc<TopologyDomains>,
    references: usize,
}

impl Topologies {
    /// Adds a selector with this topology key.
    pub(crate) fn add<'n>(&mut self, key: Symbol, nodes: impl Iterator<Item = &'n Labels>) {
        let topology = self.0.entry(key).or_insert_with(|| Topology {
            domains: Arc::new(TopologyDomains::new(key, nodes)),
            references: 0,
        });
        topology.references += 1;
    }

    /// Removes a selector with this topology key.
    pub(crate) fn remove(&mut self, key: Symbol) {
        if let Some(topology) = self.0.get_mut(&key) {
            topology.references -= 1;
            if topology.references == 0 {
                self.0.remove(&key);
            }
        }
    }

    /// The domains of a label. A label that is not in use has none.
    pub(crate) fn of(&self, key: Symbol, nodes: usize) -> Arc<TopologyDomains> {
        let topology = self.0.get(&key);
        topology.map_or_else(
            || {
                let nothing = Labels::default();
                Arc::new(TopologyDomains::new(
                    key,
                    std::iter::repeat_n(&nothing, nodes),
                ))
            },
            |topology| Arc::clone(&topology.domains),
        )
    }

    /// Adds a node at the end, or updates its labels.
    pub(crate) fn put(&mut self, id: NodeId, labels: &Labels) {
        for topology in self.0.values_mut() {
            // A compiled filter may still share the domains; it then keeps its copy.
            let domains = Arc::make_mut(&mut topology.domains);
            if id.index() == domains.of.len() {
                domains.of.push(NO_DOMAIN);
            }
            domains.put(id.index(), labels);
        }
    }

    /// Removes a node. The last node takes over its index.
    pub(crate) fn swap_remove<'n, L: Iterator<Item = &'n Labels>>(
        &mut self,
        id: NodeId,
        left: impl Fn() -> L,
    ) {
        for topology in self.0.values_mut() {
            let domains = Arc::make_mut(&mut topology.domains);
            domains.put(id.index(), &Labels::default());
            domains.of.swap_remove(id.index());
            // Empty domains are dropped from time to time.
            let empty = domains.nodes.iter().filter(|nodes| **nodes == 0).count();
            if empty > 16 + domains.count / 2 {
                *domains = TopologyDomains::new(domains.key, left());
            }
        }
    }
}
