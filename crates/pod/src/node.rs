//! The node as it comes in dumps and manifests, with only the fields we use.

use crate::toleration;
use crate::wire::{Condition, Metadata, ResourceList, Toleration, null_is_default};
use jiff::Timestamp;
use serde::Deserialize;

/// A v1 Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Node {
    /// `Node`, where given.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// Name and labels.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// What is wanted.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: NodeSpec,
    /// What is.
    #[serde(deserialize_with = "null_is_default")]
    pub status: NodeStatus,
}

/// `spec` of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSpec {
    /// What keeps pods away.
    #[serde(deserialize_with = "null_is_default")]
    pub taints: Vec<Taint>,
    /// Cordoned.
    #[serde(deserialize_with = "null_is_default")]
    pub unschedulable: bool,
}

/// `status` of a node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStatus {
    /// What pods may request.
    #[serde(deserialize_with = "null_is_default")]
    pub allocatable: ResourceList,
    /// Its conditions.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
}

/// A lease of `coordination.k8s.io/v1`; each node has one of its name, which its kubelet renews every 10 s.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Lease {
    /// The node's name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// Who has it, and since when.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: LeaseSpec,
}

/// `spec` of a lease.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaseSpec {
    /// When it was last renewed.
    pub renew_time: Option<Timestamp>,
}

/// What keeps pods away from a node unless they tolerate it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// Key.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// Value.
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    #[serde(deserialize_with = "null_is_default")]
    pub effect: String,
    /// Since when, for `NoExecute`.
    pub time_added: Option<Timestamp>,
}

impl Taint {
    /// Whether any of `tolerations` puts up with it.
    pub fn is_tolerated(&self, tolerations: &[Toleration]) -> bool {
        tolerations.iter().any(|toleration| {
            let toleration = toleration::Toleration::new(toleration, &mut |text| text);
            toleration
                .is_some_and(|toleration| toleration.covers(&self.key, &self.value, &self.effect))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_taints_a_toleration_covers() {
        let taint: Taint =
            serde_json::from_str(r#"{"key":"k","value":"v","effect":"NoExecute"}"#).unwrap();
        let table = [
            (r#"{"operator":"Exists"}"#, true),
            (r#"{"key":"k","operator":"Exists"}"#, true),
            (r#"{"key":"k","value":"v"}"#, true),
            (r#"{"key":"k","operator":"Equal","value":"v"}"#, true),
            (r#"{"key":"k","value":"w"}"#, false),
            (r#"{"key":"other","operator":"Exists"}"#, false),
            (r#"{"operator":"Exists","effect":"NoExecute"}"#, true),
            (r#"{"operator":"Exists","effect":"NoSchedule"}"#, false),
            (r#"{"key":"k","operator":"Sometimes","value":"v"}"#, false),
        ];
        for (toleration, tolerated) in table {
            let tolerations = [serde_json::from_str(toleration).unwrap()];
            assert_eq!(taint.is_tolerated(&tolerations), tolerated, "{toleration}");
        }
        assert!(!taint.is_tolerated(&[]));
    }
}
