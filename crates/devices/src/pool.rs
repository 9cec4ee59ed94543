//! Gathers the pools whose devices a node can use.

use crate::Inventory;
use crate::slice::{Node, Slice};
use std::collections::{BTreeMap, HashSet};

/// A pool as a node sees it.
#[derive(Debug)]
pub(crate) struct Pool<'i> {
    pub(crate) driver: &'i str,
    pub(crate) name: &'i str,
    pub(crate) state: State,
    /// Slices of the newest generation that the node can use; empty unless the pool is complete.
    pub(crate) slices: Vec<&'i Slice>,
}

/// Whether devices of a pool can be allocated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Ready,
    /// Slices are missing, because the driver is about to publish them.
    Incomplete,
    /// Two devices have the same name.
    Invalid,
}

/// The pools, sorted by driver and name.
pub(crate) fn gather<'i>(known: &'i Inventory, node: &dyn Node) -> Vec<Pool<'i>> {
    let mut pools: BTreeMap<(&str, &str), Vec<&Slice>> = BTreeMap::new();
    for slice in known.slices_at(node) {
        let (spec, pool) = (&slice.spec, &slice.spec.pool);
        let newest = pools.entry((&spec.driver, &pool.name)).or_default();
        match newest.first().map(|first| first.spec.pool.generation) {
            Some(generation) if pool.generation < generation => {}
            Some(generation) if pool.generation > generation => *newest = vec![slice],
            _ => newest.push(slice),
        }
    }
    let pools = pools.into_iter();
    let pools = pools.filter_map(|((driver, name), slices)| {
        let state = state(known, (driver, name), &slices)?;
        let slices = if state == State::Ready {
            slices
        } else {
            Vec::new()
        };
        Some(Pool {
            driver,
            name,
            state,
            slices,
        })
    });
    pools.collect()
}

/// `None` for a pool whose newer generation has no slice for the node.
fn state(known: &Inventory, pool: (&str, &str), slices: &[&Slice]) -> Option<State> {
    let first = &slices.first()?.spec.pool;
    let is_all = |count: usize| i64::try_from(count) == Ok(first.resource_slice_count);
    if !is_all(slices.len()) {
        let mut count = 0;
        for other in known.slices_of(pool) {
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
