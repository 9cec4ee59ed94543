//! Counts of moves in the queue. Only counts are kept, because a hundred thousand pods may move between two reads.

use crate::queue::{Moved, Pool};
use hashbrown::HashMap;

/// Counts by the pool that the pods entered and the event that brought them there (`queue_incoming_pods_total`).
#[derive(Debug, Default)]
pub(crate) struct IncomingPods(HashMap<(Pool, &'static str), u64>);

impl IncomingPods {
    /// The counts since the last call.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = (Pool, &'static str, u64)> + use<> {
        std::mem::take(&mut self.0)
            .into_iter()
            .map(|((pool, label), count)| (pool, label, count))
    }
}

impl Extend<Moved> for IncomingPods {
    fn extend<I: IntoIterator<Item = Moved>>(&mut self, moved: I) {
        for Moved { pool, label, .. } in moved {
            *self.0.entry((pool, label)).or_default() += 1;
        }
    }
}
