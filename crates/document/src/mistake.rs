//! A mistake: its place, object, key and message.

use std::fmt;

/// A place in a text. Line and column start at 1; columns count characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Line.
    pub line: u64,
    /// Column.
    pub column: u64,
}

impl Place {
    pub(crate) const START: Self = Self { line: 1, column: 1 };

    /// The place after `text`, starting here.
    pub(crate) fn after(self, text: &str) -> Self {
        let last_line = text.rsplit_once('\n').map_or(text, |(_, last)| last);
        let column = u64::try_from(last_line.chars().count()).unwrap_or(u64::MAX);
        match lines(text.as_bytes()) {
            0 => Self {
                line: self.line,
                column: self.column + column,
            },
            lines => Self {
                line: self.line + lines,
                column: column + 1,
            },
        }
    }

    /// Converts a place within a part to a place in the whole text, in which the part begins at `start`.
    pub(crate) fn within(self, start: Self) -> Self {
        let column = if self.line == 1 {
            self.column + start.column - 1
        } else {
            self.column
        };
        Self {
            line: self.line + start.line - 1,
            column,
        }
    }
}

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mistake {
    /// The place, if it is known.
    pub place: Option<Place>,
    /// The object: `namespace/name`, or `items[3]`; empty for the whole document.
    pub object: String,
    /// The path in the object: `spec.containers[0].resources`; may be empty.
    pub key: String,
    /// The message.
    pub message: String,
}

impl fmt::Display for Mistake {
    /// The part after the document's name.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        for part in [&self.object, &self.key] {
            if !part.is_empty() {
                write!(f, ": {part}")?;
            }
        }
        write!(f, ": {}", self.message)
    }
}

/// All mistakes of one document.
#[derive(Debug, Clone, Default, PartialEq, Eq, thiserror::Error)]
pub struct Mistakes {
    /// The document.
    pub name: String,
    /// At least one.
    pub mistakes: Vec<Mistake>,
    /// Whether the search stopped early.
    pub more: bool,
}

impl fmt::Display for Mistakes {
    /// One line for each mistake.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.mistakes.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{}{mistake}", self.name)?;
        }
        if self.more {
            write!(f, "\n{}: there may be more mistakes", self.name)?;
        }
        Ok(())
    }
}

/// A step of the path to a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    Key(String),
    Index(usize),
}

/// The number of line ends in `bytes`.
pub(crate) fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}
