//! Plugin capacity: each queue names its deserved share itself (S6-150, S6-151).

use super::shares::{QueueShare, Shares};
use crate::compat::Compat;
use crate::session::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
use crate::session::snapshot::Snapshot;
use hashbrown::HashMap;

#[derive(Debug, Clone)]
pub(crate) struct Capacity {
    pub(crate) shares: Shares,
}

/// The dimensions of which something is asked, the number of pods aside.
fn asked(request: &Resource) -> impl Iterator<Item = Dim> {
    let asked = request.iter();
    asked.filter_map(|(dim, amount)| (amount > 0.0 && dim != Dim::PODS).then_some(dim))
}

impl Capacity {
    pub(crate) fn open(snapshot: &Snapshot, compat: Compat) -> Self {
        let mut shares = Shares::open(snapshot, compat);
        for (share, queue) in shares.queues.iter_mut().zip(&snapshot.queues) {
            let Some(share) = share else { continue };
            share.deserved = queue.deserved.clone();
            share
                .deserved
                .lower_to(&share.real_capability, Unnamed::Infinity);
            share.deserved.raise_to(&share.guarantee);
            share.share_of_nothing = Some(1.0);
            share.update();
        }
        Self { shares }
    }

    /// Whether a queue deserves anything.
    pub(crate) fn deserves(&self, queue: usize) -> bool {
        let share = self.shares.of(queue);
        share.is_some_and(|share| !share.deserved.is_empty())
    }

    /// Whether a queue may have one request more, in the dimensions that it names.
    pub(crate) fn may_have(&self, queue: usize, request: &Resource) -> bool {
        let share = self.shares.of(queue);
        share.is_none_or(|share| {
            share
                .with(request)
                .within_for(&share.real_capability, request)
        })
    }

    /// Whether a queue may reclaim for a request: at least one resource stays within its deserved share.
    pub(crate) fn may_reclaim(&self, queue: usize, request: &Resource) -> bool {
        let Some(share) = self.shares.of(queue) else {
            return false;
        };
        let with = share.with(request);
        let mut asked = asked(request);
        self.may_have(queue, request)
            && asked.any(|dim| {
                let (with, deserved) = (with.get(dim), share.deserved.get(dim));
                (with >= EPSILON || deserved >= EPSILON) && at_most(with, deserved)
            })
    }

    /// The tasks that other queues may lose to a request; `candidates` are in victim order.
    pub(crate) fn victims(
        &self,
        snapshot: &Snapshot,
        request: &Resource,
        candidates: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let mut left: HashMap<usize, Resource> = HashMap::new();
        let mut victims = Vec::new();
        for candidate in candidates {
            let task = &snapshot.tasks[candidate];
            let queue = snapshot.jobs[task.job].queue;
            let Some(share) = self.shares.of(queue) else {
                continue;
            };
            let allocated = left.entry(queue).or_insert_with(|| share.allocated.clone());
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
