//! A pool: its slices, the use of its devices, and its state as a node sees it.

use crate::counters::Counters;
use crate::slice::Slice;
use crate::usage::Usage;
use evictd_pod::wire::AllocatedDevice;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// A pool by driver and name.
pub(crate) type PoolKey = (String, String);

/// The advice for the driver of an invalid pool.
const CORRECTS: &str = "corrects it";

/// The slices of a pool and the use of its devices.
#[derive(Debug, Default)]
pub(crate) struct PoolEntry {
    /// By name.
    pub(crate) slices: BTreeMap<Arc<str>, Arc<Slice>>,
    /// The use of devices by name.
    pub(crate) usage: HashMap<String, Usage>,
    /// The counters of a generation, until a slice or the use of a device changes.
    counters: Mutex<Option<(i64, Arc<Counters>)>>,
}

impl PoolEntry {
    /// A copy with its own use of devices.
    pub(crate) fn copied(&self) -> Self {
        Self {
            slices: self.slices.clone(),
            usage: self.usage.clone(),
            counters: Mutex::default(),
        }
    }

    /// Counts a device of an allocation as used or as free.
    pub(crate) fn count(&mut self, device: &AllocatedDevice, more: bool) {
        self.forget_counters();
        let usage = self.usage.entry(device.device.clone()).or_default();
        usage.count(device, more);
        if usage.is_none() {
            self.usage.remove(&device.device);
        }
    }

    /// The use of a device; `None` if no claim has it.
    pub(crate) fn usage(&self, device: &str) -> Option<&Usage> {
        self.usage.get(device)
    }

    /// Whether it has neither slices nor used devices.
    pub(crate) fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.usage.is_empty()
    }

    /// After a slice or the use of a device has changed.
    pub(crate) fn forget_counters(&mut self) {
        let counters = self.counters.get_mut();
        *counters.unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// All slices, for any node.
    fn slices(&self) -> impl Iterator<Item = &Slice> + Clone {
        self.slices.values().map(|slice| &**slice)
    }

    /// Why none of its devices is allocated, whatever the node: slices are missing or superfluous, or names repeat. `None` if it is
    /// complete, or has no slices. Also the advice for its driver.
    pub(crate) fn problem(&self) -> Option<(String, &'static str)> {
        let newest = self.slices().map(|slice| slice.spec.pool.generation);
        let newest = newest.max()?;
        let is_newest = |slice: &&Slice| slice.spec.pool.generation == newest;
        let current = || self.slices().filter(is_newest);
        let wanted = current().next()?.spec.pool.resource_slice_count;
        let there = current().count();
        if i64::try_from(there) != Ok(wanted) {
            let older = match self.slices.len() - there {
                0 => String::new(),
                count => format!(" ({count} of older generations do not count)"),
            };
            let problem =
                format!("is incomplete: generation {newest} has {there} of {wanted} slices{older}");
            let is_missing = i64::try_from(there).is_ok_and(|there| there < wanted);
            let mends = if is_missing {
                "has published all of them"
            } else {
                CORRECTS
            };
            return Some((problem, mends));
        }
        let mut names = HashSet::new();
        let mut devices = current().flat_map(|slice| &slice.spec.devices);
        if let Some(device) = devices.find(|device| !names.insert(&device.name)) {
            let name = &device.name;
            let problem = format!("is invalid: two of its devices are named {name}");
            return Some((problem, CORRECTS));
        }
        let counters = self.counters(newest)?;
        let problem = "is invalid: two of its counter sets have the same name, or a device consumes a counter that none has";
        counters.is_invalid.then(|| (problem.to_owned(), CORRECTS))
    }

    /// The counters of a generation; `None` if its devices consume none and no slice defines one.
    fn counters(&self, generation: i64) -> Option<Arc<Counters>> {
        let lock = || self.counters.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((known, counters)) = &*lock()
            && *known == generation
        {
            return Some(Arc::clone(counters));
        }
        let slices = self.slices();
        let slices = slices.filter(move |slice| slice.spec.pool.generation == generation);
        let consumes = |slice: &Slice| {
            let mut devices = slice.spec.devices.iter();
            devices.any(|device| !device.consumes_counters.is_empty())
        };
        let mut relevant = slices.clone();
        if !relevant.any(|slice| slice.has_counters() || consumes(slice)) {
            return None;
        }
        let is_in_use = |device: &str| self.usage.contains_key(device);
        let counters = Arc::new(Counters::new(slices, &is_in_use));
        *lock() = Some((generation, Arc::clone(&counters)));
        Some(counters)
    }
}

/// A pool as a node sees it.
#[derive(Debug)]
pub(crate) struct Pool<'i> {
    pub(crate) driver: &'i str,
    pub(crate) name: &'i str,
    pub(crate) state: State,
    /// Slices of the newest generation that the node can use; empty unless the pool is complete.
    pub(crate) slices: Vec<&'i Slice>,
    /// The shared counters, if devices consume some.
    pub(crate) counters: Option<Arc<Counters>>,
    pub(crate) entry: Option<&'i PoolEntry>,
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Slices are missing, because the driver is about to publish them, or there are too many.
    Incomplete,
    /// Two devices or counter sets have the same name, or a device consumes an unknown counter.
    Invalid,
}

impl Pool<'_> {
    /// Whether one of its devices must be bound before the pod. Such pools are tried last.
    pub(crate) fn needs_binding(&self) -> bool {
        let mut devices = self.slices.iter().flat_map(|slice| &slice.spec.devices);
        devices.any(|device| !device.binding_conditions.is_empty())
    }
}

/// A pool as it looks where these device slices can be used. `None` if a newer generation has no slice there.
pub(crate) fn pool_of<'i>(
    (driver, name): (&'i str, &'i str),
    entry: &'i PoolEntry,
    mut slices: Vec<&'i Slice>,
) -> Option<Pool<'i>> {
    let counter_slices: Vec<&Slice> = entry
        .slices()
        .filter(|slice| slice.has_counters())
        .collect();
    let generation = |slice: &&Slice| slice.spec.pool.generation;
    let relevant = slices.iter().chain(&counter_slices);
    let newest = relevant.clone().map(generation).max()?;
    let count = relevant.filter(|slice| generation(slice) == newest).count();
    slices.retain(|slice| generation(slice) == newest);
    let first = slices.first().copied();
    let first = first.or_else(|| {
        let mut counter_slices = counter_slices.into_iter();
        counter_slices.find(|slice| generation(slice) == newest)
    })?;
    let state = state(entry, (first, count), &slices)?;
    let counters = entry.counters(newest);
    let is_invalid = state == State::Ready
        && counters
            .as_ref()
            .is_some_and(|counters| counters.is_invalid);
    let state = if is_invalid { State::Invalid } else { state };
    if state != State::Ready {
        slices.clear();
    }
    Some(Pool {
        driver,
        name,
        state,
        slices,
        counters,
        entry: Some(entry),
    })
}

/// The state of a pool where none of its devices can be used, if it has counters.
pub(crate) fn state_elsewhere(key: &PoolKey, entry: &PoolEntry) -> Option<State> {
    let key = (key.0.as_str(), key.1.as_str());
    let pool = pool_of(key, entry, Vec::new())?;
    (pool.state != State::Ready).then_some(pool.state)
}

/// `first` is a slice that counts, of so many. `None` for a pool whose newer generation has no slice for the node.
fn state(entry: &PoolEntry, (first, count): (&Slice, usize), slices: &[&Slice]) -> Option<State> {
    let first = &first.spec.pool;
    let is_all = |count: usize| i64::try_from(count) == Ok(first.resource_slice_count);
    if !is_all(count) {
        let mut count = 0;
        for other in entry.slices() {
            let generation = other.spec.pool.generation;
            if generation > first.generation {
                return None;
            }
            count += usize::from(generation == first.generation);
        }
        if !is_all(count) {
            return Some(State::Incomplete);
        }
    }
    let mut names = HashSet::new();
    let devices = slices.iter().flat_map(|slice| &slice.spec.devices);
    let mut devices = devices.map(|device| device.name.as_str());
    Some(if devices.all(|name| names.insert(name)) {
        State::Ready
    } else {
        State::Invalid
    })
}
