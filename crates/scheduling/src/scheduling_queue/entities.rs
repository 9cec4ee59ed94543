//! The waiting entities that the metrics of the queue count: pods without a group, and trees of groups as one each (S7-020, S7-021).

use crate::events::ClusterEvent;
use crate::gang::Groups;
use crate::incoming_pods::{POD, POD_GROUP};
use crate::queue::{Pool, Queue};
use hashbrown::HashMap;
use std::sync::Arc;

/// The waiting pods of groups.
#[derive(Debug, Default)]
pub(super) struct Entities {
    /// The pods in each pool.
    pods: [usize; Pool::ALL.len()],
    /// The pool of each root, by index. Of several pools of its pods the first in [`Pool::ALL`] counts.
    roots: HashMap<Arc<str>, usize>,
    /// The gated pods whose group, or a group above it, does not exist.
    pub(super) incomplete: usize,
}

impl Entities {
    pub(super) fn of(groups: &Groups, queue: &Queue<ClusterEvent>) -> Self {
        let mut found = Self::default();
        for (name, pods) in groups.all_waiting() {
            let root = groups.object(name).and_then(|_| groups.root(name).ok());
            for pod in pods {
                let pool = queue.pool(pod);
                let Some(index) = Pool::ALL.iter().position(|known| Some(*known) == pool) else {
                    continue;
                };
                found.pods[index] += 1;
                match &root {
                    None => found.incomplete += usize::from(pool == Some(Pool::Gated)),
                    Some(root) => {
                        let first = found.roots.entry(Arc::clone(root)).or_insert(index);
                        *first = index.min(*first);
                    }
                }
            }
        }
        found
    }

    /// How many wait in each pool, with their type.
    pub(super) fn counts(&self, queue: &Queue<ClusterEvent>) -> Vec<(Pool, &'static str, usize)> {
        let mut counts = Vec::new();
        for (index, pool) in Pool::ALL.into_iter().enumerate() {
            let pods = queue.count(pool).saturating_sub(self.pods[index]);
            let roots = self.roots.values();
            counts.push((pool, POD, pods));
            counts.push((pool, POD_GROUP, roots.filter(|at| **at == index).count()));
        }
        counts
    }
}
