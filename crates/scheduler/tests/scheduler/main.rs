//! `evictd-scheduler plan` as a user starts it, and its reader of dumps.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod bad_input;
mod cluster;
mod dump;
mod extender;
mod live;
mod oracle;
mod preemptor;
mod server;
mod shown;

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// Runs `evictd-scheduler plan --cluster - ARGUMENTS` with the cluster on stdin and the pod in a file.
fn plan(cluster: impl AsRef<[u8]>, pod: &Value, arguments: &[&str]) -> Output {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    write!(file, "{pod}").unwrap();
    let path = file.path().to_str().unwrap();
    run(cluster, &[&["--pod", path], arguments].concat())
}

fn run(cluster: impl AsRef<[u8]>, arguments: &[&str]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evictd-scheduler"))
        .args(["plan", "--cluster", "-"])
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses early closes its end; what it said tells more than the broken pipe.
    let _ = child.stdin.take().unwrap().write_all(cluster.as_ref());
    child.wait_with_output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The JSON that a successful run printed.
fn answer(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    serde_json::from_slice(&output.stdout).unwrap()
}
