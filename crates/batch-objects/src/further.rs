//! Objects of other parts of a cluster that single plugins of a session read.

use evictd_pod::wire::{Metadata, ResourceList, null_is_default};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A v1 `ResourceQuota`: only its status counts.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceQuota {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ResourceQuotaStatus,
}

/// The observed state of a quota.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResourceQuotaStatus {
    /// The enforced limits.
    #[serde(deserialize_with = "null_is_default")]
    pub hard: ResourceList,
    /// The amounts in use.
    #[serde(deserialize_with = "null_is_default")]
    pub used: ResourceList,
}

/// The measured use of a node, in percent of its capacity by period: `{"10m": 55.5}`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default)]
pub struct NodeMetrics {
    /// Cpu.
    #[serde(deserialize_with = "null_is_default")]
    pub cpu: BTreeMap<String, f64>,
    /// Memory.
    #[serde(deserialize_with = "null_is_default")]
    pub memory: BTreeMap<String, f64>,
    /// When it was measured.
    pub time: Option<Timestamp>,
}
