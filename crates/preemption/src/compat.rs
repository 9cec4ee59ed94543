//! The version of kube-scheduler whose preemption is emulated.

/// The versions in which kube-scheduler's preemption changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compat {
    /// Preemption is part of the scheduler core (S3).
    V1_18,
    /// Preemption is a plugin; it deletes the victims before the nomination (S4-001 to S4-008).
    V1_19,
    /// Preemption is asynchronous and sets conditions on the victims (S4-009 and after).
    #[default]
    V1_36,
}

impl Compat {
    /// Every version, the oldest first.
    pub const ALL: [Self; 3] = [Self::V1_18, Self::V1_19, Self::V1_36];

    /// The name on the command line.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_18 => "v1.18",
            Self::V1_19 => "v1.19",
            Self::V1_36 => "v1.36",
        }
    }

    /// Parses the name on the command line.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|compat| compat.as_str() == name)
    }
}
