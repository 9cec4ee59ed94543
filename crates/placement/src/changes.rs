//! What has changed in a cluster since when, so that answers about nodes that did not change can be kept.

use crate::id::NodeId;

/// Counts changes.
#[derive(Debug, Default)]
pub struct Changes {
    now: u64,
    all: u64,
    /// Of each node, when it last changed; 0 for never.
    nodes: Vec<u64>,
}

impl Changes {
    /// How many changes there were.
    pub const fn now(&self) -> u64 {
        self.now
    }

    /// The last change on which every answer may depend: a node, a namespace, storage, a nomination, or pods of a kind that
    /// was not there before.
    pub const fn of_all(&self) -> u64 {
        self.all
    }

    /// The nodes to which a pod came, or which one left, after a change.
    pub fn nodes_since(&self, then: u64) -> impl Iterator<Item = NodeId> {
        let nodes = self.nodes.iter().enumerate();
        let changed = nodes.filter(move |(_, at)| **at > then);
        changed.map(|(index, _)| NodeId::of(index))
    }

    /// Something changed on which every answer may depend.
    pub(crate) const fn all(&mut self) {
        self.now += 1;
        self.all = self.now;
    }

    /// A pod came to a node or left it.
    pub(crate) fn node(&mut self, id: NodeId) {
        self.now += 1;
        if self.nodes.len() <= id.index() {
            self.nodes.resize(id.index() + 1, 0);
        }
        self.nodes[id.index()] = self.now;
    }
}
