//! Runs the controllers on a file instead of a cluster: one request to a job or a queue, or the requests that follow
//! from one change.
//!
//! The state machines are those of [`crate::job`] and [`crate::queue`]; only the API server is played here.

mod job;
mod patch;
mod queue;

pub use job::{JobCase, JobOutcome};
pub use queue::{QueueCase, QueueOutcome};

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
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}
