//! Retries of writes to the API server, and the meaning of its errors.

use evictd_cluster_client::{ApiError, Backoff, chance};
use std::time::Duration;
use tokio::time::sleep;

/// The most attempts of one write. The queue tries a pod again whose binding fails, so that few are enough.
const ATTEMPTS: u32 = 4;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);
/// The longest `retryAfterSeconds` of the server that is respected.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(10);

/// Why a write failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    /// The server's message, or the error of the call.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// The object was deleted. Another one may have its name.
    Gone,
    /// The object is in another state than assumed: the pod has a node, or is being deleted.
    Conflict,
    /// The server refuses the write, and would refuse it again.
    Refused,
    /// The write may have been carried out.
    Unanswered,
    /// The server was too busy and did not carry the write out.
    Overloaded,
    /// The write was not sent, because the scheduler stops.
    Stopped,
    /// Drivers have not bound the devices of the pod in time.
    DevicesLate,
}

impl Failure {
    fn of(kind: FailureKind, error: &ApiError) -> Self {
        let message = match error.status() {
            Some(status) if !status.message.is_empty() => status.message.clone(),
            _ => error.to_string(),
        };
        Self { kind, message }
    }

    /// Whether the same call may succeed later.
    pub(super) const fn is_passing(&self) -> bool {
        matches!(self.kind, FailureKind::Unanswered | FailureKind::Overloaded)
    }

    pub(super) fn stopped() -> Self {
        Self {
            kind: FailureKind::Stopped,
            message: "the scheduler stops".to_owned(),
        }
    }
}

/// The attempts of one write.
pub(super) struct ApiRetry {
    left: u32,
    backoff: Backoff,
    is_ambiguous: bool,
}

impl Default for ApiRetry {
    fn default() -> Self {
        Self {
            left: ATTEMPTS,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            is_ambiguous: false,
        }
    }
}

impl ApiRetry {
    /// Whether an attempt without an answer may have been carried out.
    pub(super) const fn is_ambiguous(&self) -> bool {
        self.is_ambiguous
    }

    /// Waits for the next attempt after this error. `Err` if another attempt would not help.
    pub(super) async fn after(&mut self, error: &ApiError) -> Result<(), Failure> {
        let kind = kind(error);
        self.is_ambiguous |= kind == FailureKind::Unanswered;
        self.left = self.left.saturating_sub(1);
        let again = matches!(kind, FailureKind::Unanswered | FailureKind::Overloaded);
        if !again || self.left == 0 {
            return Err(Failure::of(kind, error));
        }
        let details = error.status().and_then(|status| status.details.as_ref());
        let seconds = details.map_or(0, |details| u64::from(details.retry_after_seconds));
        let retry_after = Duration::from_secs(seconds).min(LONGEST_RETRY_AFTER);
        sleep(self.backoff.next(chance()).max(retry_after)).await;
        Ok(())
    }
}

fn kind(error: &ApiError) -> FailureKind {
    if matches!(error, ApiError::Stopped { .. }) {
        return FailureKind::Stopped;
    }
    let Some(status) = error.status() else {
        return FailureKind::Unanswered;
    };
    match status.code {
        404 => FailureKind::Gone,
        // Another object has the name now.
        409 if status.message.contains("UID in precondition") => FailureKind::Gone,
        409 => FailureKind::Conflict,
        429 => FailureKind::Overloaded,
        // The server may have stored the object before it failed.
        500.. => FailureKind::Unanswered,
        _ => FailureKind::Refused,
    }
}
