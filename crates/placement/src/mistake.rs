//! Why the cluster does not take an object.

use evictd_pod::TooManyResources;
use evictd_pod::selector::SelectorError;

/// What is wrong with an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {error}")]
pub struct Mistake {
    /// Where in it.
    pub field: String,
    /// What.
    pub error: Wrong,
}

/// What is wrong with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// A selector that cannot be understood.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// More resources than amounts are compared in.
    #[error(transparent)]
    Resources(#[from] TooManyResources),
}

impl Mistake {
    pub(crate) fn new(field: String, error: impl Into<Wrong>) -> Self {
        let error = error.into();
        Self { field, error }
    }
}
