//! The checks of the scheduler.

use evictd_daemon::health;

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// A leader whose lease has run out but that goes on.
    LeaderElection,
    /// The lists of all objects are not here yet.
    HandlerSync,
    /// The process ends.
    Shutdown,
}

impl health::Check for Check {
    const ALL: &'static [Self] = &[Self::LeaderElection, Self::HandlerSync, Self::Shutdown];

    fn name(self) -> &'static str {
        match self {
            Self::LeaderElection => "leaderElection",
            Self::HandlerSync => "sched-handler-sync",
            Self::Shutdown => "shutdown",
        }
    }

    fn is_of_life(self) -> bool {
        self == Self::LeaderElection
    }

    fn passes_at_start(self) -> bool {
        self != Self::HandlerSync
    }
}

/// The state of all checks. Clones share it.
pub type Health = health::Health<Check>;
