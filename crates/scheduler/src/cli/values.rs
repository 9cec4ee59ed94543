//! Values of flags as Go reads them.

use evictd_pod::duration as go;
use jiff::SignedDuration;

/// A truth as Go reads it.
pub(super) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// A duration as Go writes it.
pub(super) fn duration(text: &str) -> Result<SignedDuration, String> {
    go::parse(text)
        .ok()
        .filter(SignedDuration::is_positive)
        .ok_or_else(|| "a duration above zero is needed, like 15s or 1m30s".to_owned())
}
