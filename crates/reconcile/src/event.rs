//! Events that are recorded on the objects of a controller.

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

/// An event that is recorded on an object of the controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// Its `type`.
    pub tone: Tone,
    /// Its `reason`.
    pub reason: &'static str,
    /// Its `message`.
    pub message: String,
}

impl Notice {
    /// An event of type `Warning`.
    pub const fn warning(reason: &'static str, message: String) -> Self {
        Self {
            tone: Tone::Warning,
            reason,
            message,
        }
    }

    /// An event of type `Normal`.
    pub const fn normal(reason: &'static str, message: String) -> Self {
        Self {
            tone: Tone::Normal,
            reason,
            message,
        }
    }
}
