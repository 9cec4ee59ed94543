//! Values of flags in Go's syntax.

use evictd_pod::duration as go;
use jiff::SignedDuration;

/// Parses a value as `strconv.ParseBool` does.
pub(crate) fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err(format!("{text:?} is neither true nor false")),
    }
}

/// Parses a duration above zero.
pub(crate) fn duration(text: &str) -> Result<SignedDuration, String> {
    go::parse(text)
        .ok()
        .filter(SignedDuration::is_positive)
        .ok_or_else(|| "a duration above zero is needed, like 15s or 1m30s".to_owned())
}
