//! The readers and hands against the kernel itself: real control groups, real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, its helpers too"
)]

#[path = "../support/cgroup.rs"]
mod cgroup_support;
mod contents;
#[path = "../support/evictor.rs"]
mod evictor_support;
mod hidden;
mod kill;
mod refused;
mod wake;
