//! Runs the controllers on a file instead of a cluster: one request to a job or a queue, or the requests that follow
//! from one change.
//!
//! The state machines are those of [`crate::job`], [`crate::queue`] and [`crate::workflow`]; only the API server is played here.

mod job;
mod patch;
mod queue;
mod workflow;

pub use job::{JobCase, JobOutcome};
pub use queue::{QueueCase, QueueOutcome};
pub use workflow::{WorkflowCase, WorkflowOutcome};

/// Whole seconds as a whole number.
fn seconds(delay: jiff::SignedDuration) -> serde_json::Number {
    let fraction = serde_json::Number::from_f64(delay.as_secs_f64());
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
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self {
            field,
            message: message.into(),
        }
    }
}
