//! A mistake: its place, object, key and message.

pub use evictd_configuration::Place;
pub(crate) use evictd_configuration::Step;
use std::fmt;

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

/// The number of line ends in `bytes`.
pub(crate) fn lines(bytes: &[u8]) -> u64 {
    bytes.iter().map(|byte| u64::from(*byte == b'\n')).sum()
}
