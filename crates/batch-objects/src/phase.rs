//! Phases of jobs and pod groups, states of queues, types of conditions.

use super::open_enum::{KnownValues, OpenEnum};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// The values of an enum, whose names are the texts of the API.
macro_rules! known_values {
    ($kind:ident: $($value:ident),+) => {
        impl KnownValues for $kind {
            const ALL: &'static [Self] = &[$(Self::$value),+];

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }

        impl $kind {
            /// The text.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$value => stringify!($value)),+
                }
            }
        }
    };
}

/// The phase of a job (S6-006).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobPhase {
    /// Not enough of its pods have started.
    Pending,
    /// Enough of its pods have started.
    Running,
    /// Its pods are being killed, and are created again afterwards.
    Restarting,
    /// Its pods are being killed. The job can be resumed.
    Aborting,
    /// Its pods were killed. The job can be resumed.
    Aborted,
    /// Its running pods are being killed.
    Completing,
    /// Final: it has succeeded.
    Completed,
    /// Its pods are being killed for good.
    Terminating,
    /// Final: its pods were killed.
    Terminated,
    /// Final: too many of its pods failed, or it was restarted too often.
    Failed,
}

known_values!(JobPhase: Pending, Aborting, Aborted, Running, Restarting, Completing, Completed, Terminating, Terminated, Failed);

impl JobPhase {
    /// Whether a job never leaves it (S6-027).
    pub const fn is_final(self) -> bool {
        matches!(self, Self::Completed | Self::Terminated | Self::Failed)
    }
}

impl OpenEnum<JobPhase> {
    /// The phase. An absent or unknown one is handled as `Pending` (S6-006).
    pub fn or_pending(&self) -> JobPhase {
        self.known().unwrap_or(JobPhase::Pending)
    }
}

/// The state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum QueueState {
    /// The queue accepts jobs.
    Open,
    /// It accepts no jobs, and has none.
    Closed,
    /// It accepts no jobs, and still has some.
    Closing,
    /// The state is not known.
    Unknown,
}

known_values!(QueueState: Open, Closed, Closing, Unknown);

impl OpenEnum<QueueState> {
    /// The state. An absent one is `Open`, an unknown text is none (S6-067).
    pub fn or_open(&self) -> Option<QueueState> {
        if self.is_empty() {
            Some(QueueState::Open)
        } else {
            self.known()
        }
    }

    /// Whether it is `Closed` or `Closing`.
    pub fn is_closing(&self) -> bool {
        matches!(self.known(), Some(QueueState::Closed | QueueState::Closing))
    }
}

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

/// Programs write only known phases; the API server takes no others.
impl JsonSchema for PodGroupPhase {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PodGroupPhase".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let phases = [
            Self::Pending,
            Self::Running,
            Self::Unknown,
            Self::Inqueue,
            Self::Completed,
        ];
        let phases: Vec<&str> = phases.iter().map(Self::as_str).collect();
        json_schema!({"type": "string", "enum": phases})
    }
}

/// The types of a pod group's conditions that sessions write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PodGroupConditionType {
    /// Its gang was not placed.
    Unschedulable,
    /// Its gang is complete.
    Scheduled,
    /// Nodes are reserved for it.
    Reserved,
}

known_values!(PodGroupConditionType: Unschedulable, Scheduled, Reserved);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_006_phases_have_volcanos_names_and_an_unknown_one_is_pending() {
        for phase in JobPhase::ALL {
            assert_eq!(
                OpenEnum::<JobPhase>::of(phase.as_str()).or_pending(),
                *phase
            );
        }
        for text in ["", "Weird"] {
            assert_eq!(OpenEnum::of(text).or_pending(), JobPhase::Pending);
        }
    }

    #[test]
    fn s6_067_a_queue_without_a_state_is_open_and_one_with_another_text_has_none() {
        assert_eq!(OpenEnum::of("").or_open(), Some(QueueState::Open));
        assert_eq!(OpenEnum::of("Closing").or_open(), Some(QueueState::Closing));
        assert_eq!(OpenEnum::of("Weird").or_open(), None);
    }

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
