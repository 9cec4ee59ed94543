//! The figures that a decision needs.

use evictd_signals::Signal;

/// The usage that is needed of every pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageNeed {
    /// The signal that the usage is for.
    pub signal: Signal,
    /// Whether the threshold is hard.
    pub hard: bool,
}
