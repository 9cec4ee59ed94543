//! Objects that single plugins read: quotas, disruption budgets, measured use.

use super::Cache;
use crate::session::objects::{Objects, key};
use crate::session::snapshot::{Budget, Quota};
use evictd_batch_objects::{NodeMetrics, ResourceQuota};
use evictd_pod::wire::{Metadata, PodDisruptionBudget};

impl Cache {
    /// All of these among the objects of a file.
    pub(super) fn facts(&mut self, objects: &Objects) {
        for quota in &objects.resource_quotas {
            self.quota(quota);
        }
        for budget in &objects.pod_disruption_budgets {
            self.budget(budget);
        }
        for (node, metrics) in &objects.node_metrics {
            self.node_metrics(node, Some(metrics.clone()));
        }
        self.snapshot.now = objects.now;
    }

    /// A quota came or changed.
    pub fn quota(&mut self, wire: &ResourceQuota) {
        let (metadata, status) = (&wire.metadata, &wire.status);
        let quota = Quota {
            hard: status.hard.clone(),
            used: status.used.clone(),
        };
        let quotas = &mut self.snapshot.facts.quotas;
        let of_namespace = quotas.entry(metadata.namespace_or_default().into());
        of_namespace
            .or_default()
            .insert(metadata.name.as_str().into(), quota);
    }

    /// A quota is deleted.
    pub fn remove_quota(&mut self, metadata: &Metadata) {
        let quotas = &mut self.snapshot.facts.quotas;
        let namespace = metadata.namespace_or_default();
        if let Some(of_namespace) = quotas.get_mut(namespace) {
            of_namespace.remove(metadata.name.as_str());
            if of_namespace.is_empty() {
                quotas.remove(namespace);
            }
        }
    }

    /// A disruption budget came or changed.
    pub fn budget(&mut self, wire: &PodDisruptionBudget) {
        let disrupted = wire.status.disrupted_pods.keys();
        let budget = Budget {
            namespace: wire.metadata.namespace_or_default().into(),
            selector: wire.spec.selector.clone().unwrap_or_default(),
            allowed: wire.status.disruptions_allowed.unwrap_or(0),
            disrupted: disrupted.map(|name| (**name).into()).collect(),
        };
        let budgets = &mut self.snapshot.facts.budgets;
        budgets.insert(key(&wire.metadata), budget);
    }

    /// A disruption budget is deleted.
    pub fn remove_budget(&mut self, metadata: &Metadata) {
        self.snapshot.facts.budgets.remove(&key(metadata));
    }

    /// The measured use of a node; `None` where nothing is measured any more.
    pub fn node_metrics(&mut self, node: &str, metrics: Option<NodeMetrics>) {
        let known = &mut self.snapshot.facts.node_metrics;
        match metrics {
            Some(metrics) => known.insert(node.into(), metrics),
            None => known.remove(node),
        };
    }
}
