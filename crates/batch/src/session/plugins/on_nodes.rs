//! The plugins that judge nodes, beside the filters and scores of kube-scheduler.

use super::{Plugin, Plugins};
use crate::conf::{Conf, PluginName, Switch};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::TaskId;
use evictd_placement::NodeId;

/// A task on a node.
#[derive(Clone, Copy)]
pub(crate) struct OnNode<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) task: TaskId,
    pub(crate) node: NodeId,
}

/// A plugin that judges nodes, by its place among the opened ones.
#[derive(Debug)]
pub(super) struct NodeEntry {
    at: usize,
    filters: bool,
    scores: bool,
    /// Whether it is asked before the filters of kube-scheduler, as the configuration orders them.
    before: bool,
}

const fn judges_nodes(name: PluginName) -> bool {
    matches!(
        name,
        PluginName::Extender
            | PluginName::NodeGroup
            | PluginName::NumaAware
            | PluginName::ResourceStrategyFit
            | PluginName::TaskTopology
            | PluginName::Tdm
            | PluginName::NetworkTopologyAware
            | PluginName::Usage
    )
}

/// The plugins that judge nodes, in the order of the configuration.
pub(super) fn entries(conf: &Conf, opened: &[(PluginName, Box<dyn Plugin>)]) -> Vec<NodeEntry> {
    let mut before = true;
    let mut entries = Vec::new();
    for plugin in conf.tiers.iter().flatten() {
        before &= plugin.name != PluginName::Predicates;
        let at = opened.iter().position(|(name, _)| *name == plugin.name);
        entries.extend(
            at.filter(|_| judges_nodes(plugin.name))
                .map(|at| NodeEntry {
                    at,
                    filters: plugin.at(Switch::Predicate),
                    scores: plugin.at(Switch::NodeOrder),
                    before,
                }),
        );
    }
    entries
}

impl Plugins {
    /// The plugins that refuse nodes, before or after the filters of kube-scheduler.
    pub(crate) fn node_filters(
        &self,
        before: bool,
    ) -> impl Iterator<Item = (PluginName, &dyn Plugin)> {
        let filters = self.on_nodes.iter();
        let filters = filters.filter(move |entry| entry.filters && entry.before == before);
        filters.map(|entry| {
            let (name, plugin) = &self.opened[entry.at];
            (*name, &**plugin)
        })
    }

    /// The plugins that score nodes.
    pub(crate) fn node_scorers(&self) -> impl Iterator<Item = &dyn Plugin> {
        let scorers = self.on_nodes.iter().filter(|entry| entry.scores);
        scorers.map(|entry| &*self.opened[entry.at].1)
    }

    /// The keys, beside the class of the task, on which the answers of these plugins depend; empty without such plugins.
    pub(crate) fn node_keys(&self, snapshot: &Snapshot, task: TaskId) -> Vec<u64> {
        let entries = self.on_nodes.iter();
        entries
            .map(|entry| self.opened[entry.at].1.node_key(snapshot, task))
            .collect()
    }

    /// Whether the scores of one of these plugins depend on each other.
    pub(crate) fn score_together(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        let mut entries = self.on_nodes.iter().filter(|entry| entry.scores);
        entries.any(|entry| self.opened[entry.at].1.scores_together(snapshot, task))
    }

    /// Whether the answer of one of these plugins about a node depends on other nodes.
    pub(crate) fn look_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        let mut entries = self.on_nodes.iter();
        entries.any(|entry| self.opened[entry.at].1.looks_beyond(snapshot, task))
    }
}
