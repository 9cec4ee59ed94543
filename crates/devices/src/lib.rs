#![doc = include_str!("../README.md")]
//!
//! The gates are those that are on by default: binding conditions and extended resources are included. Faults of 1.36 that 1.37 repairs are repaired in both.

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
