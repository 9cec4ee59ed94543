//! Objects that only admission reads, with only the fields that are used.

use evictd_pod::ResourceList;
use evictd_pod::wire::{Metadata, ResourceClaimSpec, TextMap, Toleration, null_is_default};
use serde::Deserialize;

/// A `node.k8s.io/v1` `RuntimeClass`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RuntimeClass {
    /// Its name is that in pods.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) overhead: Overhead,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) scheduling: Scheduling,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Overhead {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) pod_fixed: ResourceList,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Scheduling {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) node_selector: TextMap,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) tolerations: Vec<Toleration>,
}

/// A v1 `LimitRange`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LimitRange {
    /// Its namespace is that of the pods.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) spec: LimitRangeSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LimitRangeSpec {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) limits: Vec<LimitRangeItem>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct LimitRangeItem {
    #[serde(rename = "type", deserialize_with = "null_is_default")]
    pub(crate) kind: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) max: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) min: ResourceList,
    #[serde(rename = "default", deserialize_with = "null_is_default")]
    pub(crate) limits: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) default_request: ResourceList,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) max_limit_request_ratio: ResourceList,
}

/// A `resource.k8s.io/v1` `ResourceClaimTemplate`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceClaimTemplate {
    /// Pods name it by name; both are in one namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) spec: ClaimTemplateSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ClaimTemplateSpec {
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(crate) spec: ResourceClaimSpec,
}
