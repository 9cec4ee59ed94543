//! The pools, and events that concern many pods.

use super::{Gates, PodLifecycles};
use crate::queue::{self, Moved, Queue, QueueingHints};
use jiff::Timestamp;
use std::sync::Arc;

impl<E> PodLifecycles<E> {
    /// The next pod to try (S5-038).
    pub(crate) fn pop(&mut self) -> Option<queue::Popped> {
        self.queue.pop()
    }

    /// Puts this waiting pod in flight, with the pod that was popped.
    pub(crate) fn take(&mut self, pod: &str) -> Option<queue::Popped> {
        self.queue.take(pod)
    }

    /// Something happened in the cluster, which may wake pods.
    pub(crate) fn wake(
        &mut self,
        event: queue::Event<E>,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Moved> {
        let gates = Gates {
            hints,
            preemptions: &self.preemptions,
            release: self.release,
        };
        self.queue.event(event, now, &gates)
    }

    pub(crate) fn activate(
        &mut self,
        pod: &str,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Option<Moved> {
        let gates = Gates {
            hints,
            preemptions: &self.preemptions,
            release: self.release,
        };
        self.queue.activate(pod, now, &gates)
    }

    pub(crate) fn flush_backoff(&mut self, now: Timestamp) -> Vec<Moved> {
        self.queue.flush_backoff(now)
    }

    pub(crate) fn flush_unschedulable(
        &mut self,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Moved> {
        let gates = Gates {
            hints,
            preemptions: &self.preemptions,
            release: self.release,
        };
        self.queue.flush_unschedulable(now, &gates)
    }

    /// The pods that wait or are in flight.
    pub(crate) const fn queue(&self) -> &Queue<E> {
        &self.queue
    }

    /// Counts the cost of an attempt of a namespace's pod.
    pub(crate) fn count_cost(&mut self, namespace: &Arc<str>, cost: u64, had_turn: bool) {
        self.queue.count_cost(namespace, cost, had_turn);
    }
}
