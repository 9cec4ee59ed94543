//! Reads and writes that are tried again as long as that can help.

use super::calls::Calls;
use crate::run::attempts::{Attempts, Failure, FailureKind};
use evictd_cluster_client::ApiError;
use serde_json::Value;
use tracing::warn;

/// The object at this path.
pub(super) async fn read(calls: &Calls, path: &str) -> Result<Value, Failure> {
    let mut attempts = Attempts::default();
    loop {
        match calls.read(path).await {
            Ok(found) => return Ok(found),
            Err(error) => attempts.after(&error).await?,
        }
    }
}

/// Merges this into the object at this path.
pub(super) async fn write(calls: &Calls, path: &str, body: &Value) -> Result<(), Failure> {
    let mut attempts = Attempts::default();
    loop {
        match calls.merge(path, body).await {
            Ok(()) => return Ok(()),
            Err(error) => attempts.after(&error).await?,
        }
    }
}

/// Makes this call until the server has answered; an answer other than that it is done, or that the object at this path is
/// gone, is logged.
pub(super) async fn until_answered<F>(path: &str, call: impl Fn() -> F)
where
    F: Future<Output = Result<(), ApiError>>,
{
    let mut attempts = Attempts::default();
    while let Err(error) = call().await {
        let Err(failure) = attempts.after(&error).await else {
            continue;
        };
        match failure.kind {
            FailureKind::Unanswered | FailureKind::Overloaded => attempts = Attempts::default(),
            FailureKind::Gone => return,
            FailureKind::Conflict | FailureKind::Refused | FailureKind::Stopped => {
                warn!("{path} is not written: {failure}");
                return;
            }
        }
    }
}
