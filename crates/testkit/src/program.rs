//! Programs as their users run them: to the end, with something on standard input, and what they said.
#![allow(
    clippy::unwrap_used,
    clippy::missing_panics_doc,
    reason = "in a test a panic is the report"
)]

use serde_json::Value;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

/// Runs a program with this on its standard input, and waits for its end. Both of its outputs are captured, however long
/// they are.
pub fn run(command: &mut Command, input: impl AsRef<[u8]>) -> Output {
    try_run(command, input).unwrap()
}

/// The same of a program that may not be installed.
pub fn try_run(command: &mut Command, input: impl AsRef<[u8]>) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().unwrap();
    let input = input.as_ref();
    thread::scope(|scope| {
        // A program that refuses early closes its end; what it said tells more than the broken pipe.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    })
}

/// Another program of the workspace: it is built beside the one at `own`, where its package's tests are built along.
pub fn beside(own: &str, name: &str) -> PathBuf {
    let path = Path::new(own).with_file_name(name);
    let path_shown = path.display();
    assert!(
        path.exists(),
        "{path_shown} is missing: cargo build -p {name}"
    );
    path
}

/// What it wrote to standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What it wrote to standard output where it ended well; else a panic shows what it said.
pub fn page(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// The JSON document that it wrote where it ended well.
pub fn answer(output: &Output) -> Value {
    serde_json::from_str(&page(output)).unwrap()
}

/// What it wrote to standard error where it ended with this exit code.
pub fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    stderr(output)
}
