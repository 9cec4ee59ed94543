//! Jobs, pod groups and queues: what a batch system decides, without I/O, clock or threads.
#![forbid(unsafe_code)]

pub mod admission;
pub mod conf;
pub mod session;
pub mod wire;
