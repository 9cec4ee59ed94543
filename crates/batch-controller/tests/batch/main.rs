//! `evictd-batch` as a user starts it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad_input;
mod cluster;
mod jobs;
mod pages;
mod queues;
mod rights;
mod short;

use std::process::Command;

fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
}
