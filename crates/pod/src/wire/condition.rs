//! Conditions in the status of objects.

use super::{ConditionStatus, Generation, generation, null_is_default};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One condition of a pod, a node or a pod group, as it is read and as it is written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// `Ready`, `MemoryPressure`, ...
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub kind: Cow<'static, str>,
    /// Whether it holds.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ConditionStatus,
    /// The reason, one word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: Cow<'static, str>,
    /// The reason in a sentence.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
    /// When it was last reported. Conditions of nodes have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// When its status last changed.
    pub last_transition_time: Option<Timestamp>,
    /// The generation of the object that it describes.
    #[serde(
        deserialize_with = "generation",
        skip_serializing_if = "Option::is_none"
    )]
    pub observed_generation: Generation,
}

impl Condition {
    /// A condition to write. Its time is in whole seconds, as Kubernetes writes times.
    pub fn new(
        kind: &'static str,
        holds: bool,
        reason: &'static str,
        message: String,
        since: Timestamp,
    ) -> Self {
        Self {
            kind: kind.into(),
            status: holds.into(),
            reason: reason.into(),
            message,
            last_heartbeat_time: None,
            last_transition_time: whole_seconds(since),
            observed_generation: None,
        }
    }

    /// With the generation of the object that it describes.
    #[must_use]
    pub const fn of_generation(mut self, generation: Generation) -> Self {
        self.observed_generation = generation;
        self
    }

    /// With the time of the report, which conditions of nodes have.
    #[must_use]
    pub fn reported(mut self, at: Timestamp) -> Self {
        self.last_heartbeat_time = whole_seconds(at);
        self
    }

    /// Whether it is of this type and its status is `True`.
    pub fn holds(&self, kind: &str) -> bool {
        self.kind == kind && self.status == ConditionStatus::True
    }

    /// Whether it is of this type and its status is `False`.
    pub fn fails(&self, kind: &str) -> bool {
        self.kind == kind && self.status == ConditionStatus::False
    }
}

fn whole_seconds(time: Timestamp) -> Option<Timestamp> {
    Timestamp::from_second(time.as_second()).ok()
}
