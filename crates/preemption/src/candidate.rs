//! The result of trying one node.

use evictd_placement::{NodeId, Rejection};
use std::ops::Range;

/// Why a tried node is not a candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotCandidate {
    /// No pod on it has a lower priority (S4-005).
    NoVictims,
    /// The pod does not fit even without the pods of lower priority.
    DoesNotFit(Rejection),
    /// Pods that budgets protect are in the way.
    Budget(Rejection),
    /// All potential victims fit again beside the pod (S4-017).
    NoVictimNeeded,
}

/// A node on which evicting the victims makes room for the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// How many victims violate a budget.
    pub violations: usize,
    pub(crate) victims: Range<u32>,
}
