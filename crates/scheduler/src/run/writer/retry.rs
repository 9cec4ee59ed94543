//! Reads and writes with retries.

use super::calls::Calls;
use crate::run::api_retry::{ApiRetry, Failure, FailureKind};
use evictd_cluster_client::ApiError;
use serde_json::Value;
use tracing::warn;

pub(super) async fn read(calls: &Calls, path: &str) -> Result<Value, Failure> {
    let mut retry = ApiRetry::default();
    loop {
        match calls.read(path).await {
            Ok(found) => return Ok(found),
            Err(error) => retry.after(&error).await?,
        }
    }
}

/// Sends a merge patch.
pub(super) async fn write(calls: &Calls, path: &str, body: &Value) -> Result<(), Failure> {
    let mut retry = ApiRetry::default();
    loop {
        match calls.merge(path, body).await {
            Ok(()) => return Ok(()),
            Err(error) => retry.after(&error).await?,
        }
    }
}

/// Sends a strategic merge patch, and returns the object as it is afterwards.
pub(super) async fn write_and_read(
    calls: &Calls,
    path: &str,
    body: &Value,
) -> Result<Value, Failure> {
    let mut retry = ApiRetry::default();
    loop {
        match calls.strategic_merge_and_read(path, body).await {
            Ok(found) => return Ok(found),
            Err(error) => retry.after(&error).await?,
        }
    }
}

/// Creates an object. One that exists already is a conflict.
pub(super) async fn create(calls: &Calls, path: &str, body: &Value) -> Result<Value, Failure> {
    let mut retry = ApiRetry::default();
    loop {
        match calls.create(path, body).await {
            Ok(found) => return Ok(found),
            Err(error) => retry.after(&error).await?,
        }
    }
}

/// Deletes the object with this UID.
pub(super) async fn delete(calls: &Calls, path: &str, uid: &str) -> Result<(), Failure> {
    let mut retry = ApiRetry::default();
    loop {
        match calls.delete_at(path, uid).await {
            Ok(()) => return Ok(()),
            Err(error) => retry.after(&error).await?,
        }
    }
}

/// Repeats a call until the server has answered. Returns the answer, or `None` if the call has failed. Logs a failure,
/// unless the object was deleted.
pub(super) async fn until_answered<F, T>(path: &str, call: impl Fn() -> F) -> Option<T>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut retry = ApiRetry::default();
    loop {
        let error = match call().await {
            Ok(answer) => return Some(answer),
            Err(error) => error,
        };
        let Err(failure) = retry.after(&error).await else {
            continue;
        };
        match failure.kind {
            FailureKind::Unanswered | FailureKind::Overloaded => retry = ApiRetry::default(),
            FailureKind::Gone => return None,
            FailureKind::Conflict
            | FailureKind::Refused
            | FailureKind::Stopped
            | FailureKind::DevicesLate => {
                warn!("{path} is not written: {failure}");
                return None;
            }
        }
    }
}
