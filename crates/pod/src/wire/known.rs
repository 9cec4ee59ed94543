//! Texts of the API that have a fixed set of known values. A newer version may know more of them.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;

/// An enum whose names are the texts of the API. Any other text is kept as it was written, so that it is never taken for
/// a known one.
macro_rules! known_values {
    ($(#[$about:meta])* $kind:ident { $($(#[$each:meta])* $value:ident),+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash)]
        pub enum $kind {
            $($(#[$each])* $value,)+
            /// Any other text; empty if the field is absent.
            Other(Box<str>),
        }

        impl $kind {
            /// The value of a text.
            pub fn of(text: &str) -> Self {
                match text {
                    $(stringify!($value) => Self::$value,)+
                    other => Self::Other(other.into()),
                }
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$value => stringify!($value),)+
                    Self::Other(text) => text,
                }
            }

            /// Whether the field is absent or empty.
            pub fn is_empty(&self) -> bool {
                self.as_str().is_empty()
            }
        }

        impl Default for $kind {
            fn default() -> Self {
                Self::Other("".into())
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl Serialize for $kind {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> Deserialize<'de> for $kind {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                // A visitor, because most parsers lend the text and no pod then needs an allocation for it.
                impl de::Visitor<'_> for Text {
                    type Value = $kind;

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str("a string")
                    }

                    fn visit_str<E: de::Error>(self, text: &str) -> Result<$kind, E> {
                        Ok($kind::of(text))
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}

known_values! {
    /// The phase of a pod.
    PodPhase {
        /// Some of its containers have not been created.
        Pending,
        /// It has a node, and at least one container runs or starts.
        Running,
        /// Final: all containers have ended with success.
        Succeeded,
        /// Final: all containers have ended, at least one with a failure.
        Failed,
        /// Its node does not report.
        Unknown
    }
}

impl PodPhase {
    /// Whether a pod never leaves it. An unknown text is no end: such a pod may still use its node.
    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

known_values! {
    /// The status of a condition.
    ConditionStatus {
        /// The condition holds.
        True,
        /// It does not.
        False,
        /// It may hold.
        Unknown
    }
}

impl From<bool> for ConditionStatus {
    fn from(holds: bool) -> Self {
        if holds { Self::True } else { Self::False }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{Condition, Pod};
    use serde_json::json;

    #[test]
    fn a_phase_is_read_and_written_as_its_text_and_another_text_is_none_of_the_known_ones() {
        for (text, ended) in [
            ("Pending", false),
            ("Running", false),
            ("Succeeded", true),
            ("Failed", true),
            ("Unknown", false),
            ("", false),
            ("failed", false),
            ("Evicted", false),
        ] {
            let phase: PodPhase = serde_json::from_value(json!(text)).unwrap();
            assert_eq!(phase.has_ended(), ended, "{text}");
            assert_eq!(phase.as_str(), text);
            assert_eq!(serde_json::to_value(&phase).unwrap(), text);
        }
        let null: Pod = serde_json::from_value(json!({"status": {"phase": null}})).unwrap();
        assert!(null.status.phase.is_empty());
        assert_ne!(PodPhase::of("running"), PodPhase::Running);
    }

    #[test]
    fn a_condition_holds_only_if_its_status_is_true() {
        for (status, holds) in [
            ("True", true),
            ("False", false),
            ("Unknown", false),
            ("true", false),
        ] {
            let condition: Condition =
                serde_json::from_value(json!({"type": "Ready", "status": status})).unwrap();
            assert_eq!(condition.holds("Ready"), holds, "{status}");
            assert!(!condition.holds("MemoryPressure"));
        }
    }

    #[test]
    fn a_condition_is_written_with_whole_seconds_and_without_what_it_lacks() {
        let since = "2026-11-27T03:00:00.75Z".parse().unwrap();
        let condition = Condition::new(
            "PodScheduled",
            false,
            "Unschedulable",
            "no node".into(),
            since,
        );
        assert_eq!(
            serde_json::to_value(&condition).unwrap(),
            json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no node",
                "lastTransitionTime": "2026-11-27T03:00:00Z",
            })
        );
    }
}
