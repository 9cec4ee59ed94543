//! What packaging/ ships does what it says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]

mod packages;
mod policies;
mod protection;
mod render;
mod tolerations;

#[path = "../support/packaged.rs"]
mod packaged;
