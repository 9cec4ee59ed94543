//! Where each node stands when all are sorted by name, so that comparing names is comparing numbers.

use crate::id::NodeId;
use std::fmt;
use std::sync::OnceLock;

/// Computed when first asked for after a node came or went. Not part of what a cluster says: its `Debug` is always the same.
#[derive(Default)]
pub(crate) struct NameRanks(OnceLock<Box<[u32]>>);

impl NameRanks {
    /// A node came or went.
    pub(crate) fn reset(&mut self) {
        self.0 = OnceLock::new();
    }

    /// By [`NodeId::index`]; `name` tells the names of `count` nodes.
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
