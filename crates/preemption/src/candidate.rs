//! What became of a node that was tried.

use evictd_placement::{NodeId, Rejection};
use std::ops::Range;

/// Why a node that was tried is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NotCandidate {
    /// No pod on it is less important (S4-005).
    NoVictims,
    /// The pod does not fit without the less important pods either.
    StillNot(Rejection),
    /// It would fit only if a budget were broken, or not even then.
    Budget(Rejection),
    /// Everybody could stay, although the pod did not fit (S4-017).
    NobodyMustGo,
}

/// A node that could be freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// How many victims break a budget.
    pub violations: usize,
    pub(crate) victims: Range<u32>,
}
