//! The rank of each node's name, so that comparing names is comparing numbers.

use crate::id::NodeId;
use std::fmt;
use std::sync::OnceLock;

/// Computed on first use after a node is added or removed. `Debug` prints a constant, because ranks are no part of the
/// cluster's state.
#[derive(Default)]
pub(crate) struct NameRanks(OnceLock<Box<[u32]>>);

impl NameRanks {
    /// Discards the ranks after a node is added or removed.
    pub(crate) fn reset(&mut self) {
        self.0 = OnceLock::new();
    }

    /// The ranks by [`NodeId::index`]. `name` returns the name of each of the `count` nodes.
    pub(crate) fn get<'n>(&self, count: usize, name: impl Fn(NodeId) -> &'n str) -> &[u32] {
        self.0.get_or_init(|| {
            let mut order: Vec<usize> = (0..count).collect();
            order.sort_unstable_by_key(|index| name(NodeId::of(*index)));
            let mut ranks = vec![0; count];
            for (rank, index) in (0..).zip(order) {
                ranks[index] = rank;
            }
            ranks.into()
        })
    }
}

impl fmt::Debug for NameRanks {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("NameRanks")
    }
}
