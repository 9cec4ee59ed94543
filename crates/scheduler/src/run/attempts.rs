//! What an answer means, and when to ask again.

use evictd_cluster_client::{ApiError, Backoff, chance};
use std::time::Duration;
use tokio::time::sleep;

/// The most attempts of one write. A pod whose binding fails is tried again by the queue, so it need not wait here.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest that is waited because the server asks for it.
const LONGEST_ASKED: Duration = Duration::from_secs(10);

/// Why a write did not succeed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What to make of it.
    pub kind: FailureKind,
    /// The server's words, or why there are none.
    pub message: String,
}

/// What to make of a failed write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureKind {
    /// There is no such pod any more, or another one has its name.
    Gone,
    /// The pod is not as it was thought: it has a node, or is being deleted.
    Conflict,
    /// The server refuses it, and always will.
    Refused,
    /// It is not known whether it was done.
    Unanswered,
    /// The server was too busy to do it.
    Overloaded,
    /// It was not begun, because the scheduler stops.
    Stopped,
}

impl Failure {
    fn of(kind: FailureKind, error: &ApiError) -> Self {
        let message = match error.status() {
            Some(status) if !status.message.is_empty() => status.message.clone(),
            _ => error.to_string(),
        };
        Self { kind, message }
    }

    pub(super) fn stopped() -> Self {
        Self {
            kind: FailureKind::Stopped,
            message: "the scheduler stops".to_owned(),
        }
    }
}

/// The attempts of one write.
pub(super) struct Attempts {
    left: u32,
    backoff: Backoff,
    unsure: bool,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            left: ATTEMPTS,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            unsure: false,
        }
    }
}

impl Attempts {
    /// Whether an attempt got no answer, so that it may have been carried out.
    pub(super) fn unsure(&self) -> bool {
        self.unsure
    }

    /// Waits until the next attempt; `Err` if there is none.
    pub(super) async fn after(&mut self, error: &ApiError) -> Result<(), Failure> {
        let kind = kind(error);
        self.unsure |= kind == FailureKind::Unanswered;
        self.left = self.left.saturating_sub(1);
        let again = matches!(kind, FailureKind::Unanswered | FailureKind::Overloaded);
        if !again || self.left == 0 {
            return Err(Failure::of(kind, error));
        }
        let details = error.status().and_then(|status| status.details.as_ref());
        let asked = details.map_or(0, |details| u64::from(details.retry_after_seconds));
        let asked = Duration::from_secs(asked).min(LONGEST_ASKED);
        sleep(self.backoff.next(chance()).max(asked)).await;
        Ok(())
    }
}

fn kind(error: &ApiError) -> FailureKind {
    let Some(status) = error.status() else {
        return FailureKind::Unanswered;
    };
    match status.code {
        404 => FailureKind::Gone,
        409 if status.message.contains("UID in precondition") => FailureKind::Gone,
        409 => FailureKind::Conflict,
        429 => FailureKind::Overloaded,
        500.. => FailureKind::Unanswered,
        _ => FailureKind::Refused,
    }
}
