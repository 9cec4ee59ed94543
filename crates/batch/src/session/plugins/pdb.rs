//! Plugin pdb: victims keep within disruption budgets (S6-219).

use super::{Plugin, Tiers};
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::{Budget, Snapshot};
use evictd_placement::Cluster;
use evictd_pod::selector::selects;
use evictd_pod::wire::{Selector, TextMap};
use hashbrown::HashMap;

#[derive(Debug)]
pub(super) struct Pdb(Budgets);

/// Disruption budgets, and the pods on nodes that each protects.
#[derive(Debug)]
pub(crate) struct Budgets {
    /// How many disruptions each budget allows.
    allowed: Vec<i32>,
    /// The budgets of each pod with labels on a node.
    budgets: HashMap<TaskId, Vec<usize>>,
}

/// Whether a budget's selector is valid, not empty, and matches labels.
fn protects(selector: &Selector, labels: &TextMap) -> bool {
    let empty = selector.match_labels.is_empty() && selector.match_expressions.is_empty();
    !empty && selects(selector, labels)
}

impl Pdb {
    pub(super) fn open(snapshot: &Snapshot, cluster: &Cluster) -> Self {
        Self(Budgets::open(snapshot, cluster))
    }

    /// The candidates within the budgets. A pod without labels is not among them.
    fn within_budgets(&self, candidates: &[TaskId]) -> Vec<TaskId> {
        let mut victims = self.0.kept_by(candidates);
        victims.retain(|victim| self.0.budgets.contains_key(victim));
        victims
    }
}

impl Budgets {
    pub(crate) fn open(snapshot: &Snapshot, cluster: &Cluster) -> Self {
        let all: Vec<&Budget> = snapshot.facts.budgets.values().collect();
        let mut budgets = HashMap::new();
        for (node, on_node) in snapshot.node_ids().zip(&snapshot.nodes) {
            for id in &on_node.tasks {
                let task = &snapshot.tasks[*id];
                let mut pods = cluster.node(node).pods.iter();
                let pod = pods.find(|pod| match pod.uid() {
                    "" => cluster.full_name(pod) == **task.id,
                    uid => *uid == **task.id,
                });
                let Some(pod) = pod.filter(|pod| !pod.labels().is_empty()) else {
                    continue;
                };
                let text = |symbol| cluster.symbols().text(symbol);
                let labels = pod.labels().iter();
                let labels: TextMap = labels
                    .map(|(key, value)| (text(key), text(value)))
                    .collect();
                let (namespace, name) = task.key.split_once('/').unwrap_or_default();
                let matching = all.iter().enumerate().filter(|(_, budget)| {
                    *budget.namespace == *namespace
                        && !budget.disrupted.contains(name)
                        && protects(&budget.selector, &labels)
                });
                budgets.insert(*id, matching.map(|(index, _)| index).collect());
            }
        }
        Self {
            allowed: all.iter().map(|budget| budget.allowed).collect(),
            budgets,
        }
    }

    /// The candidates that break no budget, if all of them go in this order.
    pub(crate) fn kept_by(&self, candidates: &[TaskId]) -> Vec<TaskId> {
        let mut left = self.allowed.clone();
        let keeps = |candidate: &TaskId| {
            let mut kept = true;
            for budget in self.budgets.get(candidate).into_iter().flatten() {
                left[*budget] -= 1;
                kept &= left[*budget] >= 0;
            }
            kept
        };
        candidates.iter().copied().filter(keeps).collect()
    }
}

impl Plugin for Pdb {
    fn preemptable(&self, _: Tiers<'_>, _: TaskId, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(self.within_budgets(candidates))
    }

    fn reclaimable(&self, _: Tiers<'_>, _: TaskId, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(self.within_budgets(candidates))
    }

    fn shuffled(&self, _: &Snapshot, running: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(self.within_budgets(running))
    }

    fn might_yield(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<bool> {
        Some(true)
    }
}
