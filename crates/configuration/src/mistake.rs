//! A mistake in a configuration: the problem, its place, and advice.

use super::place::Place;
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
        // A configuration that was not read from a text has no file.
        let mut colon = if self.file.is_empty() { "" } else { ": " };
        for part in [&self.key, &self.message] {
            if !part.is_empty() {
                write!(f, "{colon}{part}")?;
                colon = ": ";
            }
        }
        if !self.advice.is_empty() {
            write!(f, "; {}", self.advice)?;
        }
        Ok(())
    }
}

impl Mistake {
    /// The mistake without its file, for a text that is part of another one: `line 5: key: message; advice`.
    pub fn within_text(&self) -> String {
        let whole = Self {
            file: self
                .line
                .map_or(String::new(), |line| format!("line {line}")),
            line: None,
            column: None,
            ..self.clone()
        };
        whole.to_string()
    }
}

/// A configuration that cannot be used, with every mistake in the order of the text.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct InvalidConfiguration {
    /// At least one.
    pub mistakes: Vec<Mistake>,
}

impl InvalidConfiguration {
    /// Sorts the mistakes of one file by their places.
    pub fn new(mut mistakes: Vec<Mistake>) -> Self {
        mistakes.sort_by_key(|mistake| (mistake.line, mistake.column));
        Self { mistakes }
    }
}

impl fmt::Display for InvalidConfiguration {
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
pub struct Fault {
    /// The place inside the value: `[2].matchLabels`.
    pub within: String,
    /// The place in the text.
    pub at: Option<Place>,
    /// The problem.
    pub message: String,
    /// How to correct it.
    pub advice: String,
}

impl Fault {
    /// A mistake without advice.
    pub fn new(at: Option<Place>, message: impl Into<String>) -> Self {
        Self {
            within: String::new(),
            at,
            message: message.into(),
            advice: String::new(),
        }
    }

    /// Says how to correct it.
    #[must_use]
    pub fn advise(mut self, advice: impl Into<String>) -> Self {
        self.advice = advice.into();
        self
    }

    /// Moves it below a part of the value.
    #[must_use]
    pub fn inside(mut self, part: &str) -> Self {
        self.within.insert_str(0, part);
        self
    }

    /// The mistake, once file and key are known.
    pub fn in_file(self, file: &str, key: &str) -> Mistake {
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
