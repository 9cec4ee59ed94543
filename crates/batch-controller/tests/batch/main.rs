//! `evictd-batch` as its users run it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod crashes;
mod live;
mod reconcile;

use std::process::Command;

/// The program.
fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
}
