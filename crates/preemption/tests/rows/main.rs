//! The rows of S3 and S4, by their numbers.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod actions;
mod eligibility;
mod extenders;
mod groups;
mod nodes;
mod pick;
mod replacements;
#[path = "../scenario/mod.rs"]
mod scenario;
mod victims;
