//! Reads and writes that are tried again as long as that can help.

use super::calls::Calls;
use crate::run::attempts::{Attempts, Failure};
use serde_json::Value;

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
