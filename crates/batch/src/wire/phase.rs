//! Phases and conditions of pod groups.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The phase of a pod group (S6-010).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum PodGroupPhase {
    /// Absent or empty: not scheduled yet.
    #[default]
    Unset,
    /// Not enqueued.
    Pending,
    /// Enqueued, and not placed.
    Inqueue,
    /// At least `minMember` pods run.
    Running,
    /// Some of its pods run, and its gang is not complete.
    Unknown,
    /// All its pods have ended.
    Completed,
    /// A text that is no known phase.
    Other(Box<str>),
}

impl PodGroupPhase {
    /// The phase of a text.
    pub fn of(text: &str) -> Self {
        let known = [
            Self::Unset,
            Self::Pending,
            Self::Inqueue,
            Self::Running,
            Self::Unknown,
            Self::Completed,
        ];
        let mut known = known.into_iter();
        known
            .find(|phase| phase.as_str() == text)
            .unwrap_or_else(|| Self::Other(text.into()))
    }

    /// Its text; empty if unset.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Unset => "",
            Self::Pending => "Pending",
            Self::Inqueue => "Inqueue",
            Self::Running => "Running",
            Self::Unknown => "Unknown",
            Self::Completed => "Completed",
            Self::Other(text) => text,
        }
    }

    /// Whether the group is not enqueued yet.
    pub const fn is_pending(&self) -> bool {
        matches!(self, Self::Unset | Self::Pending)
    }
}

impl Serialize for PodGroupPhase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for PodGroupPhase {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::of(&text))
    }
}

/// The types of a pod group's conditions that sessions write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodGroupConditionType {
    /// Its gang was not placed.
    Unschedulable,
    /// Its gang is complete.
    Scheduled,
    /// Nodes are reserved for it.
    Reserved,
}

impl PodGroupConditionType {
    /// Its text.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unschedulable => "Unschedulable",
            Self::Scheduled => "Scheduled",
            Self::Reserved => "Reserved",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_010_a_phase_keeps_its_text_and_an_absent_one_is_pending() {
        for text in [
            "",
            "Pending",
            "Inqueue",
            "Running",
            "Unknown",
            "Completed",
            "Weird",
        ] {
            let phase: PodGroupPhase = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(&phase).unwrap(), text);
            assert_eq!(phase.is_pending(), matches!(text, "" | "Pending"));
        }
    }
}
