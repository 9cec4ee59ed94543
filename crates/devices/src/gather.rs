//! Gathers the pools whose devices a node can use.

use crate::inventory::Inventory;
use crate::pool::{Pool, pool_of};
use crate::slice::{Node, Slice};
use crate::without::Without;
use std::collections::BTreeMap;

/// The pools in the order in which they are tried: by driver and name, those with binding conditions last.
pub(crate) fn gather<'i>(
    known: &'i Inventory,
    without: &'i Without,
    node: &dyn Node,
) -> Vec<Pool<'i>> {
    let mut pools: BTreeMap<(&str, &str), Vec<&Slice>> = BTreeMap::new();
    for slice in known.slices_at(node) {
        let (spec, pool) = (&slice.spec, &slice.spec.pool);
        pools
            .entry((&spec.driver, &pool.name))
            .or_default()
            .push(slice);
    }
    let mut gathered: Vec<Pool<'i>> = Vec::new();
    for ((driver, name), slices) in pools {
        let entry = without.pool((driver, name));
        let entry = entry.or_else(|| known.pool((driver, name)));
        gathered.extend(entry.and_then(|entry| pool_of((driver, name), entry, slices)));
    }
    // Counter sets count on every node, so that a request for all devices waits for these pools everywhere.
    for ((driver, name), state) in known.unready_elsewhere() {
        let key = (driver.as_str(), name.as_str());
        if !gathered.iter().any(|pool| (pool.driver, pool.name) == key) {
            gathered.push(Pool {
                driver,
                name,
                state: *state,
                slices: Vec::new(),
                counters: None,
                entry: None,
            });
        }
    }
    gathered.sort_by_cached_key(|pool| (pool.needs_binding(), pool.driver, pool.name));
    gathered
}
