//! Dynamic resource allocation: which published devices a claim can have on a node, as kube-scheduler 1.36 allocates
//! them with structured parameters. Pure: objects come in, allocations come out.
//!
//! It decides as kube-scheduler does with the features `DRAPartitionableDevices`, `DRAConsumableCapacity`,
//! `DRADeviceBindingConditions` and `DRAExtendedResource` turned off. Devices that need one of them are never
//! allocated.

mod allocation;
mod cel;
mod claim;
mod constraint;
mod inventory;
mod pool;
mod search;
mod selectors;
mod slice;
#[cfg(test)]
mod tests;

pub use allocation::preference;
pub use inventory::Inventory;
pub use search::{Demand, Problem};
pub use slice::{Node, selects};

/// The maximum number of devices of a claim.
const MOST_DEVICES: usize = 32;
