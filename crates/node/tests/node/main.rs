//! Parts of the agent against the kernel itself: real control groups, real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, its helpers too"
)]

#[path = "../../../kernel/tests/support/cgroup.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod cgroup_support;
mod cri;
#[path = "../../../kernel/tests/support/evictor.rs"]
#[allow(dead_code, reason = "other tests use the rest of it")]
mod evictor_support;
mod pods;
mod told;
