//! Plugin capacity: each queue says itself what it deserves (S6-150, S6-151).

use super::shares::{QueueShare, Shares};
use crate::session::Form;
use crate::session::model::Model;
use crate::session::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
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
    pub(crate) fn open(model: &Model, form: &Form) -> Self {
        let mut shares = Shares::open(model, form);
        for (own, queue) in shares.queues.iter_mut().zip(&model.queues) {
            let Some(own) = own else { continue };
            own.deserved = queue.deserved.clone();
            own.deserved
                .lower_to(&own.real_capability, Unnamed::Infinity);
            own.deserved.raise_to(&own.guarantee);
            own.share_of_nothing = Some(1.0);
            own.update();
        }
        Self { shares }
    }

    /// Whether a queue deserves anything.
    pub(crate) fn deserves(&self, queue: usize) -> bool {
        let own = self.shares.of(queue);
        own.is_some_and(|own| !own.deserved.is_empty())
    }

    /// Whether a queue may have one request more, in the dimensions that it names.
    pub(crate) fn may_have(&self, queue: usize, request: &Resource) -> bool {
        let own = self.shares.of(queue);
        own.is_none_or(|own| own.with(request).within_for(&own.real_capability, request))
    }

    /// Whether a queue may take room from others for a request: in one dimension at least it stays within what it
    /// deserves.
    pub(crate) fn may_reclaim(&self, queue: usize, request: &Resource) -> bool {
        let Some(own) = self.shares.of(queue) else {
            return false;
        };
        let with = own.with(request);
        let mut asked = asked(request);
        self.may_have(queue, request)
            && asked.any(|dim| {
                let (with, deserved) = (with.get(dim), own.deserved.get(dim));
                (with >= EPSILON || deserved >= EPSILON) && at_most(with, deserved)
            })
    }

    /// Whom other queues may lose to a request; `candidates` are in the order in which they would go.
    pub(crate) fn victims(
        &self,
        model: &Model,
        request: &Resource,
        candidates: impl Iterator<Item = usize>,
    ) -> Vec<usize> {
        let mut left: HashMap<usize, Resource> = HashMap::new();
        let mut victims = Vec::new();
        for candidate in candidates {
            let task = &model.tasks[candidate];
            let queue = model.jobs[task.job].queue;
            let Some(own) = self.shares.of(queue) else {
                continue;
            };
            let allocated = left.entry(queue).or_insert_with(|| own.allocated.clone());
            if !asked(&task.request).any(|dim| request.get(dim) >= EPSILON) {
                continue;
            }
            let mut without = allocated.clone();
            without.sub(&task.request);
            if own.guarantee.within(&without, Unnamed::Zero)
                && is_exceeded(own, allocated, &task.request)
            {
                *allocated = without;
                victims.push(candidate);
            }
        }
        victims
    }
}

/// Whether a queue deserves nothing of what is asked, or holds more than that of something.
fn is_exceeded(own: &QueueShare, allocated: &Resource, request: &Resource) -> bool {
    let has = |dim: Dim| own.deserved.get(dim) >= EPSILON;
    if !request.some().any(|(dim, _)| has(dim)) {
        return true;
    }
    // Of a rarer resource it is enough that it is named.
    let named = |dim: Dim| match dim {
        Dim::CPU | Dim::MEMORY => has(dim),
        _ => own.deserved.named(dim).is_some(),
    };
    asked(request).any(|dim| named(dim) && allocated.get(dim) > own.deserved.get(dim))
}
