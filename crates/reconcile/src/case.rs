//! Files that a controller answers instead of a cluster.

use jiff::SignedDuration;
use serde_json::Number;

/// Whole seconds as a whole number.
pub fn seconds(delay: SignedDuration) -> Number {
    let fraction = Number::from_f64(delay.as_secs_f64());
    let fraction = fraction.filter(|_| delay.subsec_nanos() != 0);
    fraction.unwrap_or_else(|| delay.as_secs().into())
}

/// Why a file can't be answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {message}")]
pub struct Unanswerable {
    /// The field that is wrong or missing.
    pub field: &'static str,
    /// How to correct it.
    pub message: String,
}

impl Unanswerable {
    /// An error of this field.
    pub fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}
