//! The health checks of the scheduler.

use evictd_daemon::health;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Check {
    /// Fails for a leader that still runs after its lease has expired.
    LeaderElection,
    /// Fails until all kinds are listed.
    HandlerSync,
    /// Fails after a signal to stop.
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
pub(crate) type Health = health::Health<Check>;
