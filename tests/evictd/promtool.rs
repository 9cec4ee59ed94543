//! Prometheus' own judge of rules and figures, where it is there.

use evictd_testkit::program;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

/// Why a test that needs it is left out.
pub(crate) const MISSING: &str = "needs promtool, of Debian's package prometheus";

/// What it says, standard output before standard error; `None` where it is not installed. Panics where it fails.
pub(crate) fn run(directory: &Path, arguments: &[&str], input: &str) -> Option<String> {
    let mut promtool = Command::new("promtool");
    promtool.args(arguments).current_dir(directory);
    let output = match program::try_run(&mut promtool, input) {
        Err(error) if error.kind() == ErrorKind::NotFound => return None,
        output => output.unwrap(),
    };
    let said = program::stdout(&output) + &program::stderr(&output);
    assert!(output.status.success(), "promtool {arguments:?}: {said}");
    Some(said)
}
