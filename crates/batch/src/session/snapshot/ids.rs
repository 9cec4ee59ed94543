//! Typed indices into the tables of a [`Snapshot`](super::snapshot::Snapshot). Nodes have placement's `NodeId`.

use super::hyper_nodes::HyperNodeId;
use std::ops::{Index, IndexMut};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(crate) struct $name(u32);

        impl $name {
            /// The id at an index of its table.
            pub(crate) fn of(index: usize) -> Self {
                // Each entry takes more than a byte.
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }

            pub(crate) const fn index(self) -> usize {
                self.0 as usize
            }
        }

        // A table by this id is a plain list, which no other id can index.
        impl<T> Index<$name> for Vec<T> {
            type Output = T;

            fn index(&self, id: $name) -> &T {
                &self[id.index()]
            }
        }

        impl<T> IndexMut<$name> for Vec<T> {
            fn index_mut(&mut self, id: $name) -> &mut T {
                &mut self[id.index()]
            }
        }
    };
}

id!(
    /// A job: a pod group, or a bare pod.
    JobId
);
id!(
    /// A pod of a job.
    TaskId
);
id!(QueueId);
id!(
    /// Tasks with the same result on every node.
    ClassId
);
id!(
    /// A node of the hierarchy of queues.
    HierarchyId
);

impl HierarchyId {
    pub(crate) const ROOT: Self = Self(0);
}

/// A domain of the cluster that all pods of a group have to be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum DomainId {
    /// By the labels that it follows from.
    Labels {
        /// The place of the labels.
        labels: usize,
        /// The place of the domain.
        domain: usize,
    },
    /// A group of near nodes.
    Group(HyperNodeId),
}
