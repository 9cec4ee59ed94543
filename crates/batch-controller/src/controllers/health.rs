//! The checks of the controllers.

use evictd_daemon::health;

/// What can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Lists of all objects. They are wanted as soon as this process leads.
    Watches,
    /// The process ends.
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

/// The state of all checks. Clones share it.
pub(super) type Health = health::Health<Check>;
