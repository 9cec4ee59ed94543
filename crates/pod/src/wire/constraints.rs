//! What a pod demands of the node and the neighbours it is placed with.

use super::{null_is_default, null_is_empty_text};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `affinity` of a pod; only what is required, since preferences forbid nothing.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// Which nodes.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity: NodeAffinity,
    /// Near which pods.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_affinity: PodAffinity,
    /// Away from which pods.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_anti_affinity: PodAffinity,
}

impl Affinity {
    /// What of it a node looks at once the pod is there: the required node affinity; `None` where there is none.
    #[must_use]
    pub fn required_of_node(self) -> Option<Box<Self>> {
        let node_affinity = self.node_affinity;
        node_affinity.required.is_some().then(|| {
            Box::new(Self {
                node_affinity,
                ..Self::default()
            })
        })
    }
}

/// `nodeAffinity` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeAffinity {
    /// Absent: any node.
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

/// `podAffinity` or `podAntiAffinity` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinity {
    /// Each of these terms.
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "null_is_default"
    )]
    pub required: Vec<PodAffinityTerm>,
}

/// A node matches if any of the terms does; no term matches none.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelector {
    /// The terms.
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// A node matches if every requirement does; a term without any matches none.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeSelectorTerm {
    /// On its labels.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<Requirement>,
    /// On its fields, of which there is only `metadata.name`.
    #[serde(deserialize_with = "null_is_default")]
    pub match_fields: Vec<Requirement>,
}

/// One demand on a label or field.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Requirement {
    /// The label's key or the field's path.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`; on nodes also `Gt` and `Lt`.
    #[serde(deserialize_with = "null_is_default")]
    pub operator: String,
    /// With what it compares.
    #[serde(deserialize_with = "null_is_default")]
    pub values: Vec<String>,
}

/// Which labels; an absent selector matches nothing, an empty one everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Selector {
    /// Every one of these labels.
    #[serde(deserialize_with = "null_is_empty_text")]
    pub match_labels: BTreeMap<String, String>,
    /// And every one of these demands.
    #[serde(deserialize_with = "null_is_default")]
    pub match_expressions: Vec<Requirement>,
}

/// Pods that a pod wants near, or away.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodAffinityTerm {
    /// Which pods.
    pub label_selector: Option<Selector>,
    /// Of these namespaces; with neither this nor a selector of namespaces, the pod's own.
    #[serde(deserialize_with = "null_is_default")]
    pub namespaces: Vec<String>,
    /// And of those with these labels; an empty selector means all.
    pub namespace_selector: Option<Selector>,
    /// Nodes with the same value of this label are one place.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_key: String,
    /// Labels in which pods must equal the incoming one.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_keys: Vec<String>,
    /// Labels in which they must differ from it.
    #[serde(deserialize_with = "null_is_default")]
    pub mismatch_label_keys: Vec<String>,
}

/// How evenly pods are spread over places.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct TopologySpreadConstraint {
    /// By how many pods a place may exceed the emptiest.
    #[serde(deserialize_with = "null_is_default")]
    pub max_skew: i32,
    /// Nodes with the same value of this label are one place.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_key: String,
    /// `DoNotSchedule` or `ScheduleAnyway`.
    #[serde(deserialize_with = "null_is_default")]
    pub when_unsatisfiable: String,
    /// Which pods count.
    pub label_selector: Option<Selector>,
    /// With fewer places than this the emptiest counts as empty.
    pub min_domains: Option<i32>,
    /// `Honor` (default) or `Ignore` the pod's node selector and affinity when places are counted.
    #[serde(deserialize_with = "null_is_default")]
    pub node_affinity_policy: String,
    /// `Honor` or `Ignore` (default) taints when places are counted.
    #[serde(deserialize_with = "null_is_default")]
    pub node_taints_policy: String,
    /// Labels in which pods must equal the incoming one.
    #[serde(deserialize_with = "null_is_default")]
    pub match_label_keys: Vec<String>,
}

/// A port of a container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerPort {
    /// The port of the node that is taken; 0 takes none.
    #[serde(deserialize_with = "null_is_default")]
    pub host_port: i32,
    /// Of which address; empty means all.
    #[serde(rename = "hostIP", deserialize_with = "null_is_default")]
    pub host_ip: String,
    /// `TCP` (default), `UDP` or `SCTP`.
    #[serde(deserialize_with = "null_is_default")]
    pub protocol: String,
}
