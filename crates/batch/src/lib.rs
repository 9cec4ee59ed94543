//! Jobs, pod groups and queues: the decisions of a batch system, without I/O, clock or threads.
#![forbid(unsafe_code)]

pub mod admission;
pub mod bus;
pub mod compat;
pub mod conf;
pub mod job;
pub mod pod_group;
pub mod queue;
pub mod reconcile;
mod retries;
pub mod session;
mod usage;
pub mod why;
pub mod wire;

pub use usage::times;
