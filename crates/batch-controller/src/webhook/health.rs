//! What has to be known before a decision can be made.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
}

impl Check {
    const ALL: [Self; 4] = [
        Self::Queues,
        Self::Namespaces,
        Self::Certificate,
        Self::Bundle,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Queues => "queues",
            Self::Namespaces => "namespaces",
            Self::Certificate => "certificate",
            Self::Bundle => "bundle",
        }
    }
}

/// The checks. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Health(Arc<[AtomicBool; Check::ALL.len()]>);

impl Health {
    /// Says how a check stands.
    pub(super) fn set(&self, check: Check, passed: bool) {
        self.0[check as usize].store(passed, Ordering::Release);
    }

    /// How a check stands.
    pub(super) fn is(&self, check: Check) -> bool {
        self.0[check as usize].load(Ordering::Acquire)
    }

    /// Whether decisions can be made: what they go by is known.
    pub(super) fn knows(&self) -> bool {
        self.is(Check::Queues) && self.is(Check::Namespaces)
    }

    /// Whether all checks pass, and a line for each.
    pub(super) fn page(&self) -> (bool, String) {
        let lines = Check::ALL.map(|check| {
            let sign = if self.is(check) { "[+]" } else { "[-]" };
            format!("{sign}{}\n", check.as_str())
        });
        (
            Check::ALL.iter().all(|check| self.is(*check)),
            lines.concat(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_checks_have_to_pass_and_decisions_need_two() {
        let health = Health::default();
        assert_eq!(
            health.page(),
            (
                false,
                "[-]queues\n[-]namespaces\n[-]certificate\n[-]bundle\n".to_owned()
            )
        );
        health.set(Check::Queues, true);
        assert!(!health.knows());
        health.set(Check::Namespaces, true);
        assert!(health.knows() && !health.page().0);
        health.set(Check::Certificate, true);
        health.set(Check::Bundle, true);
        assert!(health.page().0);
    }
}
