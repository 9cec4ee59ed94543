//! Schemas of fields whose Rust type says less than the definition of the custom resource.
//!
//! The types of this module have a schema and no values: they stand in `#[schemars(with = "..")]`.
//!
//! `x-default` is the `default` of a definition, which the API server fills in. The `default` of serde is how this program
//! reads an absent field, and is left out of the definitions.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;

/// The pattern of a DNS subdomain (RFC 1123).
pub(super) const SUBDOMAIN: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

/// The pattern of a DNS label (RFC 1123).
pub(super) const LABEL: &str = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";

/// Amounts by the name of the resource.
pub(super) enum Amounts {}

/// An object that is stored as it was written. Its own controller checks it.
pub enum Anything {}

/// A time, RFC 3339.
pub enum Time {}

/// The metadata of an object, which the API server checks itself.
pub enum ObjectMeta {}

macro_rules! inline_schema {
    ($kind:ty, $name:literal, $schema:tt) => {
        impl JsonSchema for $kind {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    };
}

inline_schema!(Amounts, "Amounts", {
    "type": "object",
    "additionalProperties": {
        "anyOf": [{"type": "integer"}, {"type": "string"}],
        "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
        "x-kubernetes-int-or-string": true,
    },
});
inline_schema!(Anything, "Anything", {
    "type": "object",
    "x-kubernetes-preserve-unknown-fields": true,
});
inline_schema!(Time, "Time", {"type": "string", "format": "date-time"});
inline_schema!(ObjectMeta, "ObjectMeta", {"type": "object"});
