//! Sessions of a batch scheduler: which jobs are enqueued, placed, and evicted for others, and why a job waits. Nothing here
//! does I/O, reads a clock or starts a thread.
//!
//! * [`conf`] reads `volcano-scheduler.conf`.
//! * [`session`] takes a snapshot of the objects and runs the configured actions on it.
//! * [`why`] explains one job, and proposes the changes that start it.
//!
//! The objects themselves are those of `evictd_batch_objects`. Each page has an example.
#![forbid(unsafe_code)]

pub mod conf;
pub mod session;
pub mod why;
