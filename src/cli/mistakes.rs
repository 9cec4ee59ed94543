//! Collects all mistakes in the input, so that they are reported together.

use anyhow::anyhow;
use evictd_command::Failure;
use std::fmt::Display;

/// The mistakes found so far.
#[derive(Debug, Default)]
pub(super) struct Mistakes(Vec<String>);

impl Mistakes {
    /// The value; a mistake is noted instead.
    pub(super) fn keep<T>(&mut self, result: Result<T, impl Display>) -> Option<T> {
        result
            .map_err(|mistake| self.0.push(mistake.to_string()))
            .ok()
    }

    /// The value, unless a mistake was noted; then a failure with exit code 2 (bad input).
    pub(super) fn finish<T>(self, value: Option<T>) -> Result<T, Failure> {
        match value {
            Some(value) if self.0.is_empty() => Ok(value),
            _ => Err(Failure::input(anyhow!(self.0.join("\n")))),
        }
    }
}
