//! The devices that a node can use, and the amounts that the search takes.

use crate::capacity::{self, Amounts};
use crate::claim::{At, Subrequest};
use crate::counters::Counters;
use crate::pool::Pool;
use crate::slice::Slice;
use crate::usage::Usage;
use evictd_pod::Quantity;
use evictd_pod::compatibility::Release;
use evictd_pod::wire::Device;
use std::collections::BTreeMap;

/// A device that the node can use.
pub(crate) struct Candidate<'a> {
    pub(crate) slice: &'a Slice,
    /// Its index in the slice.
    pub(crate) at: usize,
    pub(crate) device: &'a Device,
    /// The index of its pool.
    pub(crate) pool: usize,
    /// Its use by allocated claims.
    usage: Option<&'a Usage>,
    /// Equal devices have the same kind.
    pub(crate) kind: usize,
    /// The claims of this demand that have it alone, as indices.
    taken_by: Vec<usize>,
    /// The subrequests of this demand that have a share of it.
    shares: Vec<At>,
    /// The amounts that these shares consume.
    consumed: Amounts,
    release: Release,
}

impl Candidate<'_> {
    /// Whether the subrequest may have it, apart from its capacity and counters.
    pub(crate) fn is_free(&self, at: At, subrequest: &Subrequest) -> bool {
        if self.device.allow_multiple_allocations {
            // A request needs different devices.
            let is_repeated = self.shares.contains(&at);
            return !is_repeated && (subrequest.is_admin || !self.is_dedicated());
        }
        if subrequest.is_admin {
            !self.taken_by.contains(&at.0)
        } else {
            !self.is_dedicated() && self.taken_by.is_empty()
        }
    }

    fn is_dedicated(&self) -> bool {
        self.usage.is_some_and(Usage::is_dedicated)
    }

    /// Whether a share of it is in use, so that its counters are consumed already.
    fn is_shared(&self) -> bool {
        self.device.allow_multiple_allocations
            && (!self.shares.is_empty() || self.usage.is_some_and(Usage::is_shared))
    }

    /// Whether it may differ from devices of the same kind, because shares of it are in use.
    pub(crate) fn is_special(&self) -> bool {
        self.device.allow_multiple_allocations && (!self.shares.is_empty() || self.usage.is_some())
    }

    /// The amounts that the subrequest consumes. `None` if that is too much, or not allowed.
    pub(crate) fn share(&self, subrequest: &Subrequest) -> Option<BTreeMap<String, Quantity>> {
        if self.device.capacity.is_empty() && subrequest.capacity.is_empty() {
            return Some(BTreeMap::new());
        }
        let share = self.consumption_of(subrequest)?;
        let is_enough = capacity::shortage(self.device, &share, &self.used()).is_none();
        is_enough.then_some(share)
    }

    /// The amounts that the subrequest consumes. `None` if that is not allowed.
    pub(crate) fn consumption_of(
        &self,
        subrequest: &Subrequest,
    ) -> Option<BTreeMap<String, Quantity>> {
        capacity::consumed(&subrequest.capacity, self.device, self.release)
    }

    /// The capacities that shares use.
    pub(crate) fn used(&self) -> Vec<&Amounts> {
        // Also of a device that may not be shared any more.
        let stored = self.usage.map(|usage| &usage.consumed);
        stored.into_iter().chain([&self.consumed]).collect()
    }
}

/// The devices of a node, and the remaining counters of its pools.
pub(crate) struct Candidates<'a> {
    pub(crate) all: Vec<Candidate<'a>>,
    /// By pool.
    pub(crate) counters: Vec<PoolCounters<'a>>,
}

/// The counters of a pool during a search.
pub(crate) struct PoolCounters<'a> {
    pub(crate) pool: Option<&'a Counters>,
    pub(crate) left: Vec<i128>,
}

impl<'a> Candidates<'a> {
    /// The devices of complete pools, in order.
    pub(crate) fn new(pools: &'a [Pool<'a>], release: Release) -> Self {
        let mut all: Vec<Candidate<'_>> = Vec::new();
        for (index, pool) in pools.iter().enumerate() {
            for slice in &pool.slices {
                // A device in use is of another kind than a free one.
                let first = 2 * all.len();
                for (at, device) in slice.spec.devices.iter().enumerate() {
                    let usage = pool.entry.and_then(|entry| entry.usage(&device.name));
                    let kind = slice.kinds.get(at).copied().unwrap_or(at);
                    all.push(Candidate {
                        slice,
                        at,
                        device,
                        pool: index,
                        usage,
                        kind: first + 2 * kind + usize::from(usage.is_some()),
                        taken_by: Vec::new(),
                        shares: Vec::new(),
                        consumed: Amounts::new(),
                        release,
                    });
                }
            }
        }
        let counters = pools.iter().map(|pool| {
            let pool = pool.counters.as_deref();
            PoolCounters {
                pool,
                left: pool.map(|pool| pool.left.clone()).unwrap_or_default(),
            }
        });
        Self {
            counters: counters.collect(),
            all,
        }
    }

    /// The counters that a device consumes, if they are not consumed already.
    fn consumption(&self, index: usize) -> &'a [(usize, i128)] {
        let candidate = &self.all[index];
        if candidate.device.consumes_counters.is_empty() || candidate.is_shared() {
            return &[];
        }
        let counters = self.counters[candidate.pool].pool;
        counters.map_or(&[], |counters| counters.of(&candidate.device.name))
    }

    /// The first counter of the device's pool of which too little is left, with the amount that is left. All counters of
    /// the pool count, also of sets that the device does not use.
    pub(crate) fn short_counter(&self, index: usize) -> Option<(usize, i128)> {
        let consumption = self.consumption(index);
        let left = &self.counters[self.all[index].pool].left;
        if consumption.is_empty() {
            return None;
        }
        let wanted = |counter: usize| {
            let consumed = consumption.iter().filter(|(index, _)| *index == counter);
            consumed.map(|(_, amount)| amount).sum::<i128>()
        };
        let mut counters = left.iter().copied().enumerate();
        counters.find(|(counter, left)| *left < wanted(*counter))
    }

    /// Takes a device, of a shared one these capacities.
    pub(crate) fn take(&mut self, at: At, index: usize, share: &BTreeMap<String, Quantity>) {
        self.draw(index, -1);
        let candidate = &mut self.all[index];
        if candidate.device.allow_multiple_allocations {
            candidate.shares.push(at);
            capacity::add(&mut candidate.consumed, share, 1);
        } else {
            candidate.taken_by.push(at.0);
        }
    }

    /// Releases the device that was taken last.
    pub(crate) fn give_back(&mut self, index: usize, share: &BTreeMap<String, Quantity>) {
        let candidate = &mut self.all[index];
        if candidate.device.allow_multiple_allocations {
            candidate.shares.pop();
            capacity::add(&mut candidate.consumed, share, -1);
        } else {
            candidate.taken_by.pop();
        }
        self.draw(index, 1);
    }

    fn draw(&mut self, index: usize, sign: i128) {
        let consumption = self.consumption(index);
        let left = &mut self.counters[self.all[index].pool].left;
        for (counter, amount) in consumption {
            left[*counter] += sign * amount;
        }
    }
}
