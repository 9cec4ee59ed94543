//! The object, as it is written.

use evictd_pod::wire::{Metadata, Selector, null_is_default};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The label with the source that found a HyperNode. HyperNodes without it were written by people.
pub const SOURCE_LABEL: &str = "volcano.sh/network-topology-source";

/// The pattern of a DNS subdomain (RFC 1123).
const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";

fn any_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}

fn any_objects(generator: &mut SchemaGenerator) -> Schema {
    let items = any_object(generator);
    json_schema!({"type": "array", "items": items})
}

fn object_meta(_: &mut SchemaGenerator) -> Schema {
    json_schema!({"type": "object"})
}

/// A topology.volcano.sh/v1alpha1 `HyperNode` (S6-171).
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HyperNode {
    /// The name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(schema_with = "object_meta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: HyperNodeSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: HyperNodeStatus,
}

/// The desired state of a HyperNode.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["tier"]))]
pub struct HyperNodeSpec {
    /// The members. Nodes may be in one HyperNode of each tier.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(length(min = 1))]
    pub members: Vec<Member>,
    /// The distance of its nodes: the lower, the nearer to each other.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "i64", range(min = 0))]
    pub tier: i32,
    /// The name of the tier.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    #[schemars(length(max = 253))]
    pub tier_name: String,
}

/// A node, several nodes, or another HyperNode.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["type"]))]
pub struct Member {
    /// Selects the members.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("x-kubernetes-validations" = [
        {"rule": "has(self.exactMatch) || has(self.regexMatch) || has(self.labelMatch)",
         "message": "exactMatch, regexMatch or labelMatch is needed"},
        {"rule": "(has(self.exactMatch) ? 1 : 0) + (has(self.regexMatch) ? 1 : 0) + (has(self.labelMatch) ? 1 : 0) <= 1",
         "message": "only one of exactMatch, regexMatch and labelMatch is possible"},
    ]))]
    pub selector: MemberSelector,
    /// `Node` or `HyperNode`.
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    #[schemars(with = "String", extend("enum" = ["Node", "HyperNode"]))]
    pub kind: MemberKind,
}

/// The kind of a member.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
pub enum MemberKind {
    /// A node.
    Node,
    /// A HyperNode.
    HyperNode,
    /// No kind that is known; the member is left out.
    #[default]
    #[serde(other)]
    Unknown,
}

impl MemberKind {
    /// As it is written.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "Node",
            Self::HyperNode => "HyperNode",
            Self::Unknown => "",
        }
    }
}

/// How members are found.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct MemberSelector {
    /// By name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exact_match: Option<ExactMatch>,
    /// By labels. For nodes only; a selector that asks for nothing finds none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "any_object")]
    pub label_match: Option<Selector>,
    /// By a regular expression over names. For nodes only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub regex_match: Option<RegexMatch>,
}

/// A name.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name"]))]
pub struct ExactMatch {
    /// The name of the member.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(min = 1, max = 253), regex(pattern = SUBDOMAIN))]
    pub name: String,
}

/// A regular expression.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["pattern"]))]
pub struct RegexMatch {
    /// The expression, which may match any part of a name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(min = 1))]
    pub pattern: String,
}

/// The observed state of a HyperNode.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct HyperNodeStatus {
    /// Conditions, as they were written.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    #[schemars(schema_with = "any_objects")]
    pub conditions: Vec<Value>,
    /// The number of selected members (S6-242).
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub node_count: i64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
const fn is_zero(count: &i64) -> bool {
    *count == 0
}
