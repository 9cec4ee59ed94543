//! Warnings and notes on standard error, beside the result.

use crate::View;
use std::io::{self, Write};

/// Prints a warning of `program` on standard error: wrapped if that is a terminal, control characters escaped.
pub fn warn(program: &str, what: &str) {
    print(&format!("{program}: warning: "), what);
}

/// Prints a note about the work of `program`, in the same way.
pub fn note(program: &str, what: &str) {
    print(&format!("{program}: "), what);
}

fn print(head: &str, what: &str) {
    write_line(&View::of_stderr().hanging(head, what));
}

/// Writes a line that is already wrapped. An error is ignored: a closed standard error or a full disk must not stop the work.
pub(crate) fn write_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
