//! Runs programs as their users do: to the end, with standard input, and with their output.
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
        // A program that fails early closes its input. Its output says more than the broken pipe.
        scope.spawn(move || stdin.write_all(input));
        child.wait_with_output()
    })
}

/// Another program of the workspace: it is built beside the one at `own`, where its package's tests are built along.
pub fn beside(program: &str, name: &str) -> PathBuf {
    let path = Path::new(program).with_file_name(name);
    let path_shown = path.display();
    assert!(
        path.exists(),
        "{path_shown} is missing: cargo build -p {name}"
    );
    path
}

/// Its standard output.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Its standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Its standard output if it succeeded; otherwise a panic shows all of its output.
pub fn page(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    stdout(output)
}

/// The JSON document that it wrote where it ended well.
pub fn answer(output: &Output) -> Value {
    serde_json::from_str(&page(output)).unwrap()
}

/// Its standard error if it ended with this exit code.
pub fn refusal(output: &Output, code: i32) -> String {
    assert_eq!(output.status.code(), Some(code), "{output:?}");
    stderr(output)
}
