//! Pools whose devices are used otherwise than the claims say.

use crate::inventory::Inventory;
use crate::pool::{PoolEntry, PoolKey};
use evictd_pod::wire::Allocation;
use std::collections::BTreeMap;

/// The pools of an [`Inventory`] as if some allocations did not exist, or others did.
#[derive(Debug, Default)]
pub struct Without(BTreeMap<PoolKey, PoolEntry>);

impl Without {
    /// As if this allocation of the inventory did not exist.
    pub fn free(&mut self, known: &Inventory, allocation: &Allocation) {
        self.count(known, allocation, false);
    }

    /// As if this allocation existed. It must not be counted yet.
    pub fn take(&mut self, known: &Inventory, allocation: &Allocation) {
        self.count(known, allocation, true);
    }

    /// Admin access does not use a device.
    fn count(&mut self, known: &Inventory, allocation: &Allocation, more: bool) {
        let results = allocation.devices.results.iter();
        for result in results.filter(|result| result.admin_access != Some(true)) {
            if let Some(pool) = known.pool((&result.driver, &result.pool)) {
                let key = (result.driver.clone(), result.pool.clone());
                let pool = self.0.entry(key).or_insert_with(|| pool.copied());
                pool.count(result, more);
            }
        }
    }

    /// A copy that changes by itself.
    #[must_use]
    pub fn copied(&self) -> Self {
        let pools = self.0.iter();
        Self(
            pools
                .map(|(key, pool)| (key.clone(), pool.copied()))
                .collect(),
        )
    }

    pub(crate) fn pool(&self, (driver, name): (&str, &str)) -> Option<&PoolEntry> {
        if self.0.is_empty() {
            return None;
        }
        self.0.get(&(driver.to_owned(), name.to_owned()))
    }
}
