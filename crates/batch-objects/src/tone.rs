//! The type of an event that a controller or a session records.

/// The type of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    /// `Normal`.
    Normal,
    /// `Warning`.
    Warning,
}

impl Tone {
    /// The `type` of an event.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}
