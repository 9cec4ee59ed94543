//! What happens after a time without any event.

use super::{Event, Moved, Pool, Queue, QueueingHints, Scope};
use jiff::Timestamp;
use std::sync::Arc;

impl<E> Queue<E> {
    /// Ends the backoffs whose second has passed; to be called every second (S5-009, S5-108).
    pub(crate) fn flush_backoff(&mut self, now: Timestamp) -> Vec<Moved> {
        let mut moved = Vec::new();
        for pod in self.pools.expired(now.as_second()) {
            let Some((pod, mut entry)) = self.pools.take(&pod) else {
                continue;
            };
            entry.pool = Pool::Active;
            self.pools.put(Arc::clone(&pod), entry, &self.settings);
            moved.push(Moved {
                pod,
                pool: Pool::Active,
                label: "BackoffComplete",
            });
        }
        moved
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds (S5-010).
    pub(crate) fn flush_unschedulable(
        &mut self,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Moved> {
        let limit = self.settings.max_unschedulable;
        // If a gated pod is overdue, the flush is an event for the pods in flight, as in kube-scheduler.
        let mut waiting = self.pools.list(Pool::Unschedulable);
        waiting.extend(self.pools.list(Pool::Gated));
        waiting.retain(|pod| {
            let entry = self.pools.get(pod);
            entry.is_some_and(|entry| entry.is_overdue(now, limit))
        });
        if waiting.is_empty() {
            return Vec::new();
        }
        let event = Event::wildcard("UnschedulableTimeout", Scope::All);
        let moved = self.wake(waiting, &event, now, hints);
        self.in_flight.record(event);
        moved
    }
}
