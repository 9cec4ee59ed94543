//! Parts of the agent against the kernel itself: real control groups, real processes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test may panic, its helpers too"
)]

mod cri;
mod pods;
mod told;
