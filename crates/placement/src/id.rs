//! The id of a node.

/// A node's index in [`crate::Cluster::nodes`]. If a node is removed, the last node takes over its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The node at an index of the cluster's nodes.
    pub fn of(index: usize) -> Self {
        // See `Cluster::add_node`.
        Self(u32::try_from(index).unwrap_or(u32::MAX))
    }

    /// The index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}
