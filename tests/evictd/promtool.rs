//! Prometheus' own judge of rules and figures, where it is there.

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Stdio};

/// Why a test that needs it is left out.
pub(crate) const MISSING: &str = "needs promtool, of Debian's package prometheus";

/// What it says, standard output before standard error; `None` where it is not installed. Panics where it fails.
pub(crate) fn run(directory: &Path, arguments: &[&str], input: &str) -> Option<String> {
    let spawned = Command::new("promtool")
        .args(arguments)
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match spawned {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        spawned => spawned.unwrap(),
    };
    // It reads all of it before it says anything.
    let mut stdin = child.stdin.take()?;
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    Some(said)
}
