//! `evictd-batch` as its users run it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod admit;
mod bad_input;
mod cluster;
mod commands;
mod convert;
mod crashes;
mod definitions;
mod demo;
mod extender;
mod guards;
mod hyper_nodes;
mod jobs;
mod killed;
mod live;
mod manifests;
mod pages;
mod ports;
mod queues;
mod reconcile;
mod rights;
mod scale;
mod served;
mod short;
mod simulate;
mod top;
mod trace;
mod used_rights;
mod webhook;
mod why;
mod workflow_commands;
mod workflows;

use std::process::Command;

/// The built program.
fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
}
