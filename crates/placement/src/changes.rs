//! Records when each node changed, so that callers can cache results for unchanged nodes.

use crate::id::NodeId;

/// A log of changes, numbered in order.
#[derive(Debug, Default)]
pub struct Changes {
    now: u64,
    all: u64,
    /// The last change of each node; 0 for none.
    nodes: Vec<u64>,
}

impl Changes {
    /// The number of the last change.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The last change that may affect the result on every node: a node, namespace, volume, nomination or new group of
    /// pods.
    pub const fn of_all(&self) -> u64 {
        self.all
    }

    /// The nodes that gained or lost a pod after a change.
    pub fn nodes_since(&self, then: u64) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().enumerate();
        let changed = nodes.filter(move |(_, at)| **at > then);
        changed.map(|(index, _)| NodeId::of(index))
    }

    /// Records a change that may affect the result on every node.
    pub(crate) const fn all(&mut self) {
        self.now += 1;
        self.all = self.now;
    }

    /// Records that a node gained or lost a pod.
    pub(crate) fn node(&mut self, id: NodeId) {
        self.now += 1;
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, 0);
        }
        self.nodes[id.index()] = self.now;
    }
}
