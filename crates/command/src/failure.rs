//! Why a command failed, and its exit code.

use crate::{View, printable, stderr::write_line};
use std::{fmt, process::ExitCode};

/// Why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// The command failed: exit code 1. `?` converts any error to this.
    Work(anyhow::Error),
    /// Bad usage or bad input, every mistake in one text: exit code 2.
    Input(anyhow::Error),
    /// Not permitted here; names the capability or RBAC verb that is missing: exit code 3.
    NotPermitted(anyhow::Error),
    /// The answer is no and already printed, and the caller asked for exit code 4 in that case.
    No,
}

impl Failure {
    /// The caller's mistake.
    pub fn input(error: impl Into<anyhow::Error>) -> Self {
        Self::Input(error.into())
    }

    /// Something that this process may not do.
    pub fn not_permitted(error: impl Into<anyhow::Error>) -> Self {
        Self::NotPermitted(error.into())
    }

    /// The exit code of the program.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Work(_) => 1,
            Self::Input(_) => 2,
            Self::NotPermitted(_) => 3,
            Self::No => 4,
        })
    }

    /// Prints the reason on standard error, and returns the exit code of `program`.
    pub fn report(&self, program: &str) -> ExitCode {
        let view = View::of_stderr();
        let message = self.to_string();
        for (index, line) in message.lines().enumerate() {
            let line = match index {
                0 => view.hanging(&format!("{program}: "), line),
                _ => view.hanging("", line),
            };
            write_line(&line);
        }
        self.exit_code()
    }
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Work(error.into())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Work(error) | Self::Input(error) | Self::NotPermitted(error)) = self else {
            return Ok(());
        };
        let mut message = String::new();
        for cause in error.chain().map(ToString::to_string) {
            // The message of some errors already contains their cause.
            if message.is_empty() {
                message = cause;
            } else if !message.ends_with(&cause) {
                message.push_str(": ");
                message.push_str(&cause);
            }
        }
        f.write_str(&printable(&message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn names_from_outside_cannot_steer_a_terminal() {
        let failure = Failure::from(anyhow!("no such pod: \u{1b}[2J"));
        assert_eq!(failure.to_string(), "no such pod: \\u001b[2J");
    }

    #[test]
    fn no_cause_is_printed_twice() {
        let cause = || Err::<(), _>(anyhow!("no such file"));
        let printed = |error: anyhow::Error| Failure::from(error).to_string();
        assert_eq!(
            printed(cause().context("cannot read it").unwrap_err()),
            "cannot read it: no such file"
        );
        let twice = cause()
            .context("cannot read it: no such file")
            .context("sorry");
        assert_eq!(
            printed(twice.unwrap_err()),
            "sorry: cannot read it: no such file"
        );
    }
}
