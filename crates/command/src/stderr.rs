//! What is said beside the result, on standard error.

use crate::View;
use std::io::{self, Write};

/// Says on standard error what the user of `program` should know, wrapped where that is a terminal, with whatever would
/// steer it written out.
pub fn warn(program: &str, what: &str) {
    say(&format!("{program}: warning: "), what);
}

/// The same of what `program` does now.
pub fn tell(program: &str, what: &str) {
    say(&format!("{program}: "), what);
}

fn say(head: &str, what: &str) {
    write_line(&View::of_stderr().hanging(head, what));
}

/// A line that is wrapped already. That standard error is closed, or its disk full, nobody can be told: the work goes on.
pub(crate) fn write_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}
