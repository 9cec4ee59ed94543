//! The fields of a configuration file: all are optional, and unknown ones are errors.

use evictd_pod::wire::{NodeAffinity, TopologySpreadConstraint};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A list or map that may be `null`.
fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct KubeSchedulerConfiguration {
    /// `kubescheduler.config.k8s.io/v1`.
    pub api_version: String,
    /// `KubeSchedulerConfiguration`.
    pub kind: String,
    pub(super) parallelism: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) leader_election: LeaderElection,
    #[serde(deserialize_with = "or_default")]
    pub(super) client_connection: ClientConnection,
    pub(super) enable_profiling: Option<bool>,
    pub(super) enable_contention_profiling: Option<bool>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    pub(super) pod_initial_backoff_seconds: Option<i64>,
    pub(super) pod_max_backoff_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) profiles: Vec<Profile>,
    #[serde(deserialize_with = "or_default")]
    pub(super) extenders: Vec<Extender>,
    pub(super) delay_cache_until_active: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct LeaderElection {
    pub(super) leader_elect: Option<bool>,
    pub(super) lease_duration: Option<String>,
    pub(super) renew_deadline: Option<String>,
    pub(super) retry_period: Option<String>,
    pub(super) resource_lock: Option<String>,
    pub(super) resource_name: Option<String>,
    pub(super) resource_namespace: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ClientConnection {
    pub(super) kubeconfig: Option<String>,
    pub(super) accept_content_types: Option<String>,
    pub(super) content_type: Option<String>,
    pub(super) qps: Option<f64>,
    pub(super) burst: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Profile {
    pub(super) scheduler_name: Option<String>,
    pub(super) percentage_of_nodes_to_score: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) plugins: Plugins,
    #[serde(deserialize_with = "or_default")]
    pub(super) plugin_config: Vec<PluginConfig>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Plugins {
    #[serde(deserialize_with = "or_default")]
    pub(super) pre_enqueue: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) queue_sort: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) pre_filter: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) filter: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) post_filter: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) pod_group_post_filter: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) pre_score: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) score: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) reserve: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) permit: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) pre_bind: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) bind: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) post_bind: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) placement_generate: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) placement_score: PluginSet,
    #[serde(deserialize_with = "or_default")]
    pub(super) multi_point: PluginSet,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginSet {
    #[serde(deserialize_with = "or_default")]
    pub(super) enabled: Vec<Named>,
    #[serde(deserialize_with = "or_default")]
    pub(super) disabled: Vec<Named>,
}

#[derive(Debug, Default, Clone, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Named {
    pub(super) name: String,
    pub(super) weight: Option<i64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PluginConfig {
    pub(super) name: String,
    pub(super) args: Option<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Extender {
    pub(super) url_prefix: String,
    pub(super) filter_verb: String,
    pub(super) preempt_verb: String,
    pub(super) prioritize_verb: String,
    pub(super) weight: i64,
    pub(super) bind_verb: String,
    #[serde(rename = "enableHTTPS")]
    pub(super) enable_https: bool,
    pub(super) tls_config: Option<TlsConfig>,
    pub(super) http_timeout: Option<String>,
    pub(super) node_cache_capable: bool,
    #[serde(deserialize_with = "or_default")]
    pub(super) managed_resources: Vec<ManagedResource>,
    pub(super) ignorable: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TlsConfig {
    pub(super) insecure: bool,
    pub(super) server_name: String,
    pub(super) cert_file: String,
    pub(super) key_file: String,
    pub(super) ca_file: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) cert_data: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) key_data: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) ca_data: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ManagedResource {
    pub(super) name: String,
    pub(super) ignored_by_scheduler: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FitArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) ignored_resources: Vec<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) ignored_resource_groups: Vec<String>,
    pub(super) scoring_strategy: Option<ScoringStrategy>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScoringStrategy {
    #[serde(rename = "type")]
    pub(super) kind: Option<String>,
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: Vec<Named>,
    pub(super) requested_to_capacity_ratio: Option<Ratio>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Ratio {
    #[serde(deserialize_with = "or_default")]
    pub(super) shape: Vec<Point>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Point {
    pub(super) utilization: i64,
    pub(super) score: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BalancedArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) resources: Vec<Named>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct AffinityArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) hard_pod_affinity_weight: Option<i64>,
    pub(super) ignore_preferred_terms_of_existing_pods: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct NodeAffinityArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) added_affinity: Option<NodeAffinity>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct SpreadArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) default_constraints: Vec<TopologySpreadConstraint>,
    pub(super) defaulting_type: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PreemptionArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) min_candidate_nodes_percentage: Option<i64>,
    pub(super) min_candidate_nodes_absolute: Option<i64>,
    pub(super) frees_devices: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct BindingArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) bind_timeout_seconds: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    pub(super) shape: Vec<Point>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct DynamicResourcesArgs {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) filter_timeout: Option<String>,
    pub(super) binding_timeout: Option<String>,
}
