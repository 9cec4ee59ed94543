//! Runs the controllers on a file instead of a cluster: one request to a job or a queue, or the requests that follow
//! from one change.
//!
//! The state machines are those of [`crate::job`] and [`crate::queue`]; only the API server is simulated here.

mod job;
mod patch;
mod queue;

pub use job::{JobCase, JobOutcome};
pub use queue::{QueueCase, QueueOutcome};
