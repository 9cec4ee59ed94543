//! A mistake in a configuration: the problem, its place, and advice.

use evictd_document::Place;
use serde::Serialize;
use std::fmt;

/// A mistake, or a warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mistake {
    /// The file, as its user named it.
    pub file: String,
    /// Line, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u64>,
    /// Column, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub column: Option<u64>,
    /// The key, with those above it: `evictionHard.memory.available`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// The problem.
    pub message: String,
    /// How to correct it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub advice: String,
}

impl fmt::Display for Mistake {
    /// `file:line:column: key: message; advice`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        for number in [self.line, self.column].into_iter().flatten() {
            write!(f, ":{number}")?;
        }
        if !self.key.is_empty() {
            write!(f, ": {}", self.key)?;
        }
        write!(f, ": {}", self.message)?;
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

/// A configuration that cannot be used, with all its mistakes.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Refused {
    /// The first error, in the words of the kubelet, which reports only one.
    pub kubelet_first_error: String,
    /// Every mistake, in the order of the file.
    pub mistakes: Vec<Mistake>,
    /// Warnings.
    pub warnings: Vec<Mistake>,
}

impl fmt::Display for Refused {
    /// One mistake a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            let line_end = if index == 0 { "" } else { "\n" };
            write!(f, "{line_end}{mistake}")?;
        }
        Ok(())
    }
}

/// A mistake in a value, before the key is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fault {
    /// The place inside the value: `[2].matchLabels`.
    pub(super) within: String,
    pub(super) at: Option<Place>,
    pub(super) message: String,
    pub(super) advice: String,
}

impl Fault {
    pub(super) fn new(at: Option<Place>, message: impl Into<String>) -> Self {
        Self {
            within: String::new(),
            at,
            message: message.into(),
            advice: String::new(),
        }
    }

    pub(super) fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    pub(super) fn inside(mut self, part: &str) -> Self {
        self.within.insert_str(0, part);
        self
    }

    pub(super) fn of_key(self, file: &str, key: &str) -> Mistake {
        Mistake {
            file: file.to_owned(),
            line: self.at.map(|at| at.line),
            column: self.at.map(|at| at.column),
            key: format!("{key}{}", self.within),
            message: self.message,
            advice: self.advice,
        }
    }
}
