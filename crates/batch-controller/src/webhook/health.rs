//! The health checks of the webhook.

use evictd_daemon::health;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// The queues are listed.
    Queues,
    /// The namespaces are listed.
    Namespaces,
    /// The server has a certificate.
    Certificate,
    /// The webhook configurations have its authority.
    Bundle,
    /// The process is not shutting down.
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

/// The results of all checks. Clones share them.
pub(super) type Health = health::Health<Check>;

/// Whether the webhook has all objects that a decision needs.
pub(super) fn can_decide(health: &Health) -> bool {
    health.is(Check::Queues) && health.is(Check::Namespaces)
}
