//! The health checks of the controllers.

use evictd_daemon::health;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// All kinds are listed. A replica that does not lead passes, because it lists nothing.
    Watches,
    /// The process is not shutting down.
    Shutdown,
}

impl health::Check for Check {
    const ALL: &'static [Self] = &[Self::Watches, Self::Shutdown];

    fn name(self) -> &'static str {
        match self {
            Self::Watches => "watches",
            Self::Shutdown => "shutdown",
        }
    }

    fn passes_at_start(self) -> bool {
        true
    }
}

/// The results of all checks. Clones share them.
pub(super) type Health = health::Health<Check>;
