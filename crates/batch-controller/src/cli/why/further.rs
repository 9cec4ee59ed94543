//! Objects that only some plugins and actions of the configuration read.

use super::objects::ClusterObjects;
use crate::cli::cluster::Cluster;
use crate::cli::kind::{BUDGETS, Kind, NODE_METRICS, NUMATOPOLOGIES, QUOTAS};
use evictd_batch::conf::{Action, Conf, PluginName};
use evictd_batch_objects::NodeMetrics;
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Plugins that go by the time. For others it stays unknown, because with it nodes are reserved for jobs, and the turns of the
/// scheduler are unknown here.
const TIMED: [PluginName; 5] = [
    PluginName::Sla,
    PluginName::Tdm,
    PluginName::Cdp,
    PluginName::Usage,
    PluginName::Rescheduling,
];

/// Reads the kinds that the configuration needs. One that cannot be listed becomes a warning.
pub(super) fn read(cluster: &Cluster, conf: &Conf, read: &mut ClusterObjects) {
    let has = |names: &[PluginName]| {
        let mut plugins = conf.tiers.iter().flatten();
        plugins.any(|plugin| names.contains(&plugin.name))
    };
    let mut actions = conf.actions.iter();
    let spares = [Action::GangPreempt, Action::GangReclaim, Action::Shuffle];
    let warnings = &mut read.warnings;
    let objects = &mut read.objects;
    if has(&TIMED) {
        objects.now = Some(Timestamp::now());
    }
    if has(&[PluginName::ResourceQuota]) {
        let effect = "no quota seems to keep the job out";
        objects.resource_quotas = list(cluster, &QUOTAS, effect, warnings);
    }
    if has(&[PluginName::Pdb]) || actions.any(|action| spares.contains(action)) {
        let effect = "no budget seems to protect a pod";
        objects.pod_disruption_budgets = list(cluster, &BUDGETS, effect, warnings);
    }
    if has(&[PluginName::NumaAware]) {
        let effect = "the processors of all nodes seem to be unknown";
        objects.numatopologies = list(cluster, &NUMATOPOLOGIES, effect, warnings);
    }
    if has(&[PluginName::Usage, PluginName::Rescheduling]) {
        let effect = "the use of all nodes is unknown";
        let nodes: Vec<Value> = list(cluster, &NODE_METRICS, effect, warnings);
        // The use of a node whose object cannot be read stays unknown.
        let nodes = nodes
            .into_iter()
            .filter_map(|node| NodeMetrics::of_object(node).ok());
        objects.node_metrics = nodes.collect();
    }
}

/// The objects of a kind in all namespaces. Without the right the warning says what is less exact.
fn list<T: DeserializeOwned>(
    cluster: &Cluster,
    kind: &Kind,
    effect: &str,
    warnings: &mut Vec<String>,
) -> Vec<T> {
    cluster.list(kind, "").unwrap_or_else(|failure| {
        let plural = kind.plural;
        let group = match kind.group {
            "metrics.k8s.io" => " of metrics.k8s.io",
            _ => "",
        };
        warnings.push(format!(
            "{plural}{group} cannot be listed, so that {effect}: {failure}"
        ));
        Vec::new()
    })
}
