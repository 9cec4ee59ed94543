//! The built `evictd` as its users run it: one program, for each more is linked anew after every change.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "in a test a panic is the report"
)]

mod admit;
mod alone;
mod check_config;
mod clients;
mod config_errors;
mod containers;
mod demo;
mod explain;
#[cfg(target_arch = "x86_64")]
mod faults;
mod monitoring;
mod outputs;
mod packaging;
mod quality;
mod run_daemon;
mod schema;
mod service;
mod simulate;
mod terminal;

// What they share.
#[allow(dead_code, reason = "other tests need what these do not")]
#[path = "../../crates/kernel/tests/support/cgroup.rs"]
mod cgroup_support;
mod cluster;
#[path = "../../crates/eviction/tests/comparison/mod.rs"]
mod comparison;
mod daemon;
mod node;
mod packaged;
mod promtool;

use std::process::Command;

/// The built program with these arguments.
fn evictd(arguments: &[&str]) -> Command {
    let mut command = Command::new(node::EVICTD);
    command.args(arguments);
    command
}
