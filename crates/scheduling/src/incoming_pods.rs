//! Counts of moves in the queue. Only counts are kept, because a hundred thousand pods may move between two reads.

use crate::queue::{Moved, Pool};
use hashbrown::{HashMap, HashSet};
use std::sync::Arc;

/// Counts by the pool that the pods entered and the event that brought them there (`queue_incoming_pods_total`).
#[derive(Debug, Default)]
pub(crate) struct IncomingPods {
    pods: HashMap<(Pool, &'static str), u64>,
    /// As `queue_incoming_entities_total`: pods without a group, and trees of groups (S7-021).
    entities: HashMap<(Pool, &'static str, &'static str), u64>,
}

/// The label `type` of a pod without a group.
pub(crate) const POD: &str = "pod";
/// The label `type` of a group, or of a tree of groups.
pub(crate) const POD_GROUP: &str = "podgroup";

impl IncomingPods {
    /// The counts of pods since the last call.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Pool, &'static str, u64)> + use<> {
        std::mem::take(&mut self.pods)
            .into_iter()
            .map(|((pool, label), count)| (pool, label, count))
    }

    /// The counts of entities since the last call: the pool, the event, the type and how many.
    pub(crate) fn take_entities(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, &'static str, u64)> + use<> {
        std::mem::take(&mut self.entities)
            .into_iter()
            .map(|((pool, label, kind), count)| (pool, label, kind, count))
    }

    /// Counts the moves of one event. `root` returns the root of the group of a pod.
    pub(crate) fn count(
        &mut self,
        moved: impl IntoIterator<Item = Moved>,
        mut root: impl FnMut(&str) -> Option<Arc<str>>,
    ) {
        let mut groups = HashSet::new();
        for Moved { pod, pool, label } in moved {
            *self.pods.entry((pool, label)).or_default() += 1;
            let kind = match root(&pod) {
                None => POD,
                Some(root) if groups.insert((Arc::clone(&root), pool)) => POD_GROUP,
                // One event moves a group once, whatever brought its single pods there.
                Some(_) => continue,
            };
            *self.entities.entry((pool, label, kind)).or_default() += 1;
        }
    }
}
