//! Which kube-scheduler is followed.

/// The three forms that preemption has had.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Form {
    /// Part of the scheduler itself (S3).
    V1_18,
    /// A plugin, victims deleted before the nomination (S4-001 to S4-008).
    V1_19,
    /// Asynchronous, with conditions on the victims (S4-009 and after).
    #[default]
    V1_36,
}

impl Form {
    /// Every form, the oldest first.
    pub const ALL: [Self; 3] = [Self::V1_18, Self::V1_19, Self::V1_36];

    /// The form as the command line names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V1_18 => "v1.18",
            Self::V1_19 => "v1.19",
            Self::V1_36 => "v1.36",
        }
    }

    /// The form of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|form| form.as_str() == name)
    }
}
