//! Why a search fails, and its limits.

use std::cell::Cell;
use std::sync::atomic::AtomicU64;

/// Why the claims cannot be allocated on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Problem {
    /// Too few devices match.
    NotEnough,
    /// Too few devices match, and an invalid pool was skipped.
    InvalidPools,
    /// A request for all devices needs a pool that is incomplete or invalid.
    PoolInUpdate(String),
    /// A request for all devices violates a constraint.
    Constraint(String),
    /// A selector fails, or a device has an unsupported attribute.
    Selector(String),
    /// A claim is invalid, or asks for too many devices.
    Claim(String),
    /// The search was given up at its cost limit.
    TooExpensive,
    /// The attempt reached the limit for uncached selectors. The next attempt continues.
    Interrupted,
}

/// The limit of a search, and its cost so far without cached results.
pub(crate) struct Limits<'d> {
    /// A further uncached selector is evaluated while those of the demand have cost less than this.
    pub(crate) evaluated: u64,
    /// The cost of those of the demand.
    pub(crate) evaluated_cost: &'d AtomicU64,
    pub(crate) spent: Cell<u64>,
}

impl Limits<'_> {
    /// Whether the search has cost as much as the selectors may.
    pub(crate) const fn is_spent(&self) -> bool {
        self.spent.get() >= self.evaluated
    }

    pub(crate) fn charge(&self, units: u64) {
        self.spent.set(self.spent.get().saturating_add(units));
    }
}
