//! What has to be known before a decision can be made.

use evictd_daemon::health;

/// Something that has to be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Every queue is known.
    Queues,
    /// Every namespace is known.
    Namespaces,
    /// There is a certificate.
    Certificate,
    /// The API server was told whose certificate it is.
    Bundle,
    /// The process ends.
    Shutdown,
}

impl health::Check for Check {
    const ALL: &'static [Self] = &[
        Self::Queues,
        Self::Namespaces,
        Self::Certificate,
        Self::Bundle,
        Self::Shutdown,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Namespaces => "namespaces",
            Self::Certificate => "certificate",
            Self::Bundle => "bundle",
            Self::Shutdown => "shutdown",
        }
    }

    fn passes_at_start(self) -> bool {
        self == Self::Shutdown
    }
}

/// The checks. Clones share them.
pub(super) type Health = health::Health<Check>;

/// Whether decisions can be made: what they go by is known.
pub(super) fn can_decide(health: &Health) -> bool {
    health.is(Check::Queues) && health.is(Check::Namespaces)
}
