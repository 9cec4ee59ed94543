//! The objects of Kueue that queues are made of, as far as they are read.

use evictd_pod::Quantity;
use evictd_pod::wire::{Metadata, null_is_default};
use serde::Deserialize;
use serde_json::Value;

/// A `ClusterQueue`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClusterQueue {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) spec: ClusterQueueSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ClusterQueueSpec {
    /// Until v1beta1.
    #[serde(deserialize_with = "null_is_default")]
    pub(super) cohort: String,
    /// Since v1beta2.
    #[serde(deserialize_with = "null_is_default")]
    pub(super) cohort_name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) resource_groups: Vec<ResourceGroup>,
    pub(super) namespace_selector: Option<Value>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) queueing_strategy: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) preemption: Preemption,
    pub(super) stop_policy: Option<String>,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) admission_checks: Vec<Value>,
    pub(super) admission_checks_strategy: Option<Value>,
    pub(super) flavor_fungibility: Option<Value>,
    pub(super) fair_sharing: Option<FairSharing>,
    pub(super) admission_scope: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Preemption {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) reclaim_within_cohort: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) within_cluster_queue: String,
    pub(super) borrow_within_cohort: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FairSharing {
    pub(super) weight: Option<Quantity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceGroup {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) flavors: Vec<FlavorQuotas>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct FlavorQuotas {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) resources: Vec<ResourceQuota>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ResourceQuota {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) name: String,
    pub(super) nominal_quota: Option<Quantity>,
    pub(super) borrowing_limit: Option<Quantity>,
    pub(super) lending_limit: Option<Quantity>,
}

/// A `Cohort`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Cohort {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) spec: CohortSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct CohortSpec {
    /// In v1alpha1.
    #[serde(deserialize_with = "null_is_default")]
    pub(super) parent: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) parent_name: String,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) resource_groups: Vec<ResourceGroup>,
    pub(super) fair_sharing: Option<FairSharing>,
}

/// A `LocalQueue`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct LocalQueue {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) spec: LocalQueueSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct LocalQueueSpec {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) cluster_queue: String,
    pub(super) stop_policy: Option<String>,
}

/// A `ResourceFlavor`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceFlavor {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) spec: FlavorSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct FlavorSpec {
    pub(super) node_labels: Option<Value>,
    pub(super) node_taints: Option<Value>,
    pub(super) tolerations: Option<Value>,
    pub(super) topology_name: Option<Value>,
}
