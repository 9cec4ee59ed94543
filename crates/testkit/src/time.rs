//! Times in objects.

use jiff::Timestamp;
use serde_json::Value;

/// As objects hold times: whole seconds.
pub(crate) fn time(now: Timestamp) -> Value {
    format!("{now:.0}").into()
}
