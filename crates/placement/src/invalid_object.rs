//! Why the cluster rejects an object.

use evictd_pod::TooManyResources;
use evictd_pod::selector::SelectorError;

/// An invalid field of an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {error}")]
pub struct InvalidObject {
    /// The path of the field.
    pub field: String,
    /// The problem.
    pub error: InvalidField,
}

/// The problem with a field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidField {
    /// An invalid selector.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// More terms or constraints than a list of a pending pod may have. Each may need memory for every node.
    #[error("{count} entries; a pod that is to be scheduled may have {most}")]
    Terms {
        /// How many it has.
        count: usize,
        /// How many it may have.
        most: usize,
    },
    /// More resources than a pod may request.
    #[error(transparent)]
    Resources(#[from] TooManyResources),
}

impl InvalidObject {
    pub(crate) fn new(field: String, error: impl Into<InvalidField>) -> Self {
        let error = error.into();
        Self { field, error }
    }
}
