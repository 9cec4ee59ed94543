//! What names a node within a cluster.

/// A node's place in [`crate::Cluster::nodes`], until a node is removed: the last one then takes the place that is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The node at an index of the cluster's nodes.
    pub fn of(index: usize) -> Self {
        // Each node takes more than a byte.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
