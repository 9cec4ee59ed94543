//! Jobs, pod groups and queues: what a batch system decides, without I/O, clock or threads.
#![forbid(unsafe_code)]

pub mod admission;
pub mod bus;
pub mod conf;
pub mod job;
pub mod pod_group;
pub mod queue;
pub mod reconcile;
mod retries;
pub mod session;
pub mod trace;
mod usage;
pub mod why;
pub mod wire;
