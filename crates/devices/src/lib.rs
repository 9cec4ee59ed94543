//! Dynamic resource allocation: which published devices a claim can have on a node, as kube-scheduler allocates
//! them with structured parameters. Pure: objects come in, allocations come out.
//!
//! It decides as kube-scheduler 1.36 or 1.37 with its default gates: shared counters, shares of capacities, binding conditions
//! and extended resources included. Faults of 1.36 that 1.37 repairs are repaired in both.

mod allocation;
mod binding;
mod candidate;
mod capacity;
mod cel;
mod claim;
mod constraint;
mod counters;
mod demand;
mod extended;
mod gather;
mod inventory;
mod limits;
mod pool;
mod search;
mod selectors;
mod slice;
mod taint_rules;
#[cfg(test)]
mod tests;
mod usage;
mod verdicts;
mod without;

pub use allocation::preference;
pub use binding::{Binding, binding, needs_binding};
pub use demand::Demand;
pub use extended::{
    ClassDevices, ContainerRequests, Mapping, SpecialRequests, special_claim, special_requests,
};
pub use inventory::{Inventory, special_key};
pub use limits::Problem;
pub use slice::{Node, selects};
pub use without::Without;

/// The maximum number of devices of a claim.
const MOST_DEVICES: usize = 32;
