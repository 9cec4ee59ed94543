//! Plugin capacity: each queue names its deserved share itself (S6-150, S6-151).

use super::{Plugin, QueueShare, Shares, Tiers};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
use evictd_batch_objects::Compat;
use hashbrown::HashMap;
use std::cmp::Ordering;

#[derive(Debug, Clone)]
pub(super) struct Capacity {
    shares: Shares,
}

/// The requested resources, without the number of pods.
fn asked(request: &Resource) -> impl Iterator<Item = Dim> {
    let asked = request.iter();
    asked.filter_map(|(dim, amount)| (amount > 0.0 && dim != Dim::PODS).then_some(dim))
}

impl Capacity {
    pub(super) fn open(snapshot: &Snapshot, compat: Compat) -> Self {
        let mut shares = Shares::open(snapshot, compat);
        for (share, queue) in shares.queues.iter_mut().zip(&snapshot.queues) {
            let Some(share) = share else { continue };
            share.deserved = queue.deserved.clone();
            share
                .deserved
                .lower_to(&share.real_capability, Unnamed::Infinity);
            share.deserved.raise_to(&share.guarantee);
            // A queue that deserves nothing comes last, whatever it holds.
            share.share_of_nothing = Some(1.0);
            share.update();
        }
        Self { shares }
    }

    /// Whether a queue deserves anything.
    fn deserves(&self, queue: QueueId) -> bool {
        let share = self.shares.of(queue);
        share.is_some_and(|share| !share.deserved.is_empty())
    }

    /// Whether a queue may reclaim for a request: at least one resource stays within its deserved share.
    fn may_reclaim(&self, queue: QueueId, request: &Resource) -> bool {
        let Some(share) = self.shares.of(queue) else {
            return false;
        };
        let with = share.with(request);
        let mut asked = asked(request);
        with.within_for(&share.real_capability, request)
            && asked.any(|dim| {
                let (with, deserved) = (with.get(dim), share.deserved.get(dim));
                (with >= EPSILON || deserved >= EPSILON) && at_most(with, deserved)
            })
    }

    /// The tasks that other queues may lose to a request; `candidates` are in victim order.
    fn victims(
        &self,
        snapshot: &Snapshot,
        request: &Resource,
        candidates: impl Iterator<Item = TaskId>,
    ) -> Vec<TaskId> {
        let mut left: HashMap<QueueId, Resource> = HashMap::new();
        let mut victims = Vec::new();
        for candidate in candidates {
            let task = &snapshot.tasks[candidate];
            let queue = snapshot.jobs[task.job].queue;
            let Some(share) = self.shares.of(queue) else {
                continue;
            };
            let allocated = left.entry(queue).or_insert_with(|| share.allocated.clone());
            // Its room would be of no use to the request.
            if !asked(&task.request).any(|dim| request.get(dim) >= EPSILON) {
                continue;
            }
            let mut without = allocated.clone();
            without.sub(&task.request);
            if share.guarantee.within(&without, Unnamed::Zero)
                && is_exceeded(share, allocated, &task.request)
            {
                *allocated = without;
                victims.push(candidate);
            }
        }
        victims
    }
}

impl Plugin for Capacity {
    fn queue_order(&self, snapshot: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        let shares = || self.shares.compare(snapshot, one, other);
        // A queue that deserves something comes before one that deserves nothing.
        shares().then_with(|| self.deserves(other).cmp(&self.deserves(one)))
    }

    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let order = tiers.victims_in_order(candidates.to_vec());
        let request = &tiers.snapshot.tasks[reclaimer].request;
        Some(self.victims(tiers.snapshot, request, order.into_iter()))
    }

    fn preemptive(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        snapshot.queues[queue].open && self.may_reclaim(queue, request)
    }

    fn queue_shares(&self) -> Option<&Shares> {
        Some(&self.shares)
    }

    fn queue_shares_mut(&mut self) -> Option<&mut Shares> {
        Some(&mut self.shares)
    }

    fn deserved_if_wanted(&self, queue: QueueId, _: QueueId) -> Option<&Resource> {
        self.shares.of(queue).map(|share| &share.deserved)
    }

    fn promised_share(&self, snapshot: &Snapshot, queue: QueueId) -> Option<f64> {
        Some(self.shares.promised(queue, &snapshot.total, true))
    }
}

/// Whether a queue deserves none of the requested resources, or holds more than its share of one.
fn is_exceeded(share: &QueueShare, allocated: &Resource, request: &Resource) -> bool {
    let has = |dim: Dim| share.deserved.get(dim) >= EPSILON;
    if !request.some().any(|(dim, _)| has(dim)) {
        return true;
    }
    // Of a rarer resource it is enough that it is named.
    let named = |dim: Dim| match dim {
        Dim::CPU | Dim::MEMORY => has(dim),
        _ => share.deserved.named(dim).is_some(),
    };
    asked(request).any(|dim| named(dim) && allocated.get(dim) > share.deserved.get(dim))
}
