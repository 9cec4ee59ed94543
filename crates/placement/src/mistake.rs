//! Why the cluster does not take an object.

use evictd_pod::selector::SelectorError;

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {error}")]
pub struct Mistake {
    /// Where in it.
    pub field: String,
    /// What.
    pub error: SelectorError,
}

impl Mistake {
    pub(crate) const fn new(field: String, error: SelectorError) -> Self {
        Self { field, error }
    }
}
