//! The client against a runtime in memory and against a real one.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod answers;
mod errors;
mod runtime;
mod state;

use evictd_cri::{Client, Settings};
use evictd_testkit::cri::Double;
use std::path::Path;
use std::time::Duration;

/// A short deadline for runtimes that never answer.
fn client(socket: &Path, question: Duration) -> Client {
    Client::new(Settings {
        endpoint: Some(socket.display().to_string()),
        question,
        change: question,
        ..Settings::default()
    })
    .unwrap()
}

/// A deadline for a busy machine.
fn patient(double: &Double) -> Client {
    client(&double.socket(), Duration::from_secs(30))
}

const SOON: Duration = Duration::from_millis(100);
