//! Fields with a fixed set of values, such as phases. A newer version may know more of them.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// The known values of such a field.
pub trait KnownValues: Copy + Eq + fmt::Debug + 'static {
    /// Every value, in the order of the schema.
    const ALL: &'static [Self];

    /// The text of a value.
    fn as_str(self) -> &'static str;
}

/// A known value, or any other text as it was written. An absent field is the empty text.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum OpenEnum<T> {
    /// One of [`KnownValues::ALL`].
    Known(T),
    /// Any other text.
    Other(Box<str>),
}

impl<T: KnownValues> OpenEnum<T> {
    /// The value of a text.
    pub fn of(text: &str) -> Self {
        let known = T::ALL.iter().copied().find(|value| value.as_str() == text);
        known.map_or_else(|| Self::Other(text.into()), Self::Known)
    }

    /// The value, if it is a known one.
    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(value) => Some(*value),
            Self::Other(_) => None,
        }
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(value) => value.as_str(),
            Self::Other(text) => text,
        }
    }

    /// Whether the field is absent or empty.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }
}

impl<T> Default for OpenEnum<T> {
    fn default() -> Self {
        Self::Other("".into())
    }
}

impl<T: KnownValues> From<T> for OpenEnum<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: KnownValues> PartialEq<T> for OpenEnum<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(*other)
    }
}

impl<T: KnownValues> fmt::Display for OpenEnum<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T: KnownValues> Serialize for OpenEnum<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: KnownValues> Deserialize<'de> for OpenEnum<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(Self::of(&text))
    }
}

/// The API server takes known values only.
impl<T: KnownValues> JsonSchema for OpenEnum<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "OpenEnum".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let values: Vec<&str> = T::ALL.iter().map(|value| value.as_str()).collect();
        json_schema!({"type": "string", "enum": values})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::JobPhase;

    #[test]
    fn a_text_that_is_no_known_value_is_kept() {
        for text in ["", "Running", "Weird"] {
            let phase: OpenEnum<JobPhase> = serde_json::from_value(text.into()).unwrap();
            assert_eq!(serde_json::to_value(&phase).unwrap(), text);
        }
        assert_eq!(OpenEnum::of("Running"), JobPhase::Running);
        assert_eq!(OpenEnum::<JobPhase>::of("Weird").known(), None);
    }
}
