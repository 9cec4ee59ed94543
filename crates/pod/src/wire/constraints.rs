//! The conditions that a pod sets for its node and for the pods near it.

use super::{TextMap, null_is_default};
use serde::{Deserialize, Serialize};

/// The `affinity` of a pod: required and preferred terms.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// The nodes on which it may run.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity: NodeAffinity,
    /// The pods near which it must run.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_affinity: PodAffinity,
    /// The pods near which it must not run.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_anti_affinity: PodAffinity,
}

impl Affinity {
    /// The part that the node itself checks: the required node affinity; `None` if there is none.
    #[must_use]
    pub fn required_of_node(self) -> Option<Box<Self>> {
        let required = self.node_affinity.required?;
        Some(Box::new(Self {
            node_affinity: NodeAffinity {
                required: Some(required),
                preferred: Vec::new(),
            },
            ..Self::default()
        }))
    }
}

/// `nodeAffinity` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinity {
    /// If absent, any node will do.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
    /// Nodes that it would rather be on.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<PreferredNodes>,
}

/// Nodes that a pod would rather be on.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PreferredNodes {
    /// How much it would, 1 to 100.
    #[serde(deserialize_with = "null_is_default")]
    pub weight: i32,
    /// Which nodes; a term without requirements means none.
    #[serde(deserialize_with = "null_is_default")]
    pub preference: NodeSelectorTerm,
}

/// `podAffinity` or `podAntiAffinity` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinity {
    /// The terms, all of which must be met.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default"
    )]
    pub required: Vec<PodAffinityTerm>,
    /// Terms that had better be met.
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub preferred: Vec<WeightedPodAffinityTerm>,
}

/// A term of a pod affinity that had better be met.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WeightedPodAffinityTerm {
    /// How much each pod that is meant counts, 1 to 100.
    #[serde(deserialize_with = "null_is_default")]
    pub weight: i32,
    /// Which pods are meant.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_affinity_term: PodAffinityTerm,
}

/// A node matches if any of the terms matches; without terms no node matches.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// A node that meets any of these terms is selected.
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A node matches if it meets every requirement; a term without requirements matches no node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// Requirements on the node's labels, all of them.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<Requirement>,
    /// Requirements on its fields; the only field is `metadata.name`.
    #[serde(deserialize_with = "null_is_default")]
    pub match_fields: Vec<Requirement>,
}

/// One requirement on a label or field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key or the field's path.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`; on nodes also `Gt` and `Lt`.
    #[serde(deserialize_with = "null_is_default")]
    pub operator: String,
    /// The values to compare with.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// A label selector. An absent one matches nothing, an empty one everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// The labels that the object must have, all of them.
    #[serde(deserialize_with = "null_is_default")]
    pub match_labels: TextMap,
    /// The requirements that it must meet in addition, all of them.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<Requirement>,
}

/// One term of a pod affinity: pods that must or must not be near.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// The pods that are meant, by their labels.
    pub label_selector: Option<Selector>,
    /// Their namespaces. Without this and without a selector of namespaces, the namespace of the pod itself.
    #[serde(deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
    /// Further namespaces, by their labels; an empty selector means all.
    pub namespace_selector: Option<Selector>,
    /// The label of the topology: nodes with the same value are one domain.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_key: String,
    /// Keys of labels in which those pods must have the same value as the incoming one.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_keys: Vec<String>,
    /// Keys of labels in which they must have another value.
    #[serde(deserialize_with = "null_is_default")]
    pub mismatch_label_keys: Vec<String>,
}

/// How evenly pods must be spread over the domains of a topology.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// By how many pods a domain may exceed the one with the fewest.
    #[serde(deserialize_with = "null_is_default")]
    pub max_skew: i32,
    /// The label of the topology: nodes with the same value are one domain.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    #[serde(deserialize_with = "null_is_default")]
    pub when_unsatisfiable: String,
    /// The pods that are counted, by their labels.
    pub label_selector: Option<Selector>,
    /// With fewer domains than this, the fewest pods count as zero.
    pub min_domains: Option<i32>,
    /// `Honor` (default) or `Ignore`: whether nodes that the pod's selector and affinity exclude are left out of the count.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity_policy: String,
    /// `Honor` or `Ignore` (default): whether nodes with taints that the pod does not tolerate are left out of the count.
    #[serde(deserialize_with = "null_is_default")]
    pub node_taints_policy: String,
    /// Keys of labels in which those pods must have the same value as the incoming one.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_keys: Vec<String>,
}

#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port in the pod.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    pub container_port: i32,
    /// The port on the node; 0 means none.
    #[serde(deserialize_with = "null_is_default")]
    pub host_port: i32,
    /// The address on the node; empty means all addresses.
    #[serde(rename = "hostIP", deserialize_with = "null_is_default")]
    pub host_ip: String,
    /// `TCP` (default), `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_is_default")]
    pub protocol: String,
}

/// A mark on a node, or on a device, that keeps pods away unless they tolerate it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Taint {
    /// `node.kubernetes.io/memory-pressure`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// Compared with the toleration's value; often empty.
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule`, `NoExecute`.
    #[serde(deserialize_with = "null_is_default")]
    pub effect: String,
    /// When it was added; only for `NoExecute`.
    pub time_added: Option<jiff::Timestamp>,
}
