//! `evictd-batch controllers`: the state machines of jobs and queues, at work on a cluster.
//!
//! ```text
//!   watches -> news -> Engine -> JobMachine, QueueMachine -> calls -> API server
//!                        ^----------- answers -----------------'
//! ```

mod back;
mod calls;
mod chores;
mod engine;
mod events;
mod health;
mod keys;
mod known;
mod metrics;
mod plain;
mod process;
mod wakes;
mod watches;

pub use process::{RunError, Settings, run};
