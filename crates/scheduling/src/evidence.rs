//! Why a pod got its node: the reasons of the rejected nodes, and the scores of the best two.

use crate::cycle::{Filtered, Scores, Verdict};
use crate::framework::Framework;
use evictd_placement::filter::messages_in_order;
use evictd_placement::{Cluster, NodeId, Pod};
use serde::Serialize;
use std::sync::Arc;

/// How many nodes with the same reasons are named.
const MAX_NAMED: usize = 8;

/// Nodes that were rejected for the same reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedNodes {
    /// The plugin that rejected them; `Extender` for any extender.
    pub plugin: String,
    /// The messages of kube-scheduler.
    pub reasons: Vec<String>,
    /// How many nodes.
    pub count: usize,
    /// The names of some of them.
    pub nodes: Vec<String>,
}

/// The scores of a plugin for the chosen node and for the runner-up, from 0 to 100.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidingScore {
    /// The plugin.
    pub plugin: String,
    /// The weight of the score.
    pub weight: i64,
    /// The score of the chosen node.
    pub chosen: i64,
    /// The score of the runner-up.
    pub runner_up: i64,
}

/// Why a node was chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The rejected nodes.
    pub rejections: Arc<[RejectedNodes]>,
    /// The second best node; `None` if only one was feasible.
    pub runner_up: Option<String>,
    /// The scores of both.
    pub scores: Vec<DecidingScore>,
}

/// Nodes with the same verdict.
struct NodeGroup {
    verdict: Verdict,
    count: usize,
    first: Vec<NodeId>,
}

/// Groups the rejected nodes by their verdict.
fn group_rejected(verdicts: &[Verdict]) -> Vec<NodeGroup> {
    let mut groups: Vec<NodeGroup> = Vec::new();
    // There are few different verdicts, and equal ones often follow each other, so a search from the last group is faster
    // than a map.
    let mut last = 0;
    for (index, verdict) in verdicts.iter().enumerate() {
        if matches!(verdict, Verdict::Feasible | Verdict::NotTried) {
            continue;
        }
        let has_verdict = |group: &NodeGroup| group.verdict == *verdict;
        if !groups.get(last).is_some_and(has_verdict) {
            let known = groups.iter().position(has_verdict);
            last = known.unwrap_or(groups.len());
        }
        if last == groups.len() {
            groups.push(NodeGroup {
                verdict: *verdict,
                count: 0,
                first: Vec::new(),
            });
        }
        let group = &mut groups[last];
        group.count += 1;
        if group.first.len() < MAX_NAMED {
            group.first.push(NodeId::of(index));
        }
    }
    groups
}

impl NodeGroup {
    fn rejected_by(self, cluster: &Cluster, plugin: String, reasons: Vec<String>) -> RejectedNodes {
        let names = self.first.into_iter();
        RejectedNodes {
            plugin,
            reasons,
            count: self.count,
            nodes: names.map(|id| cluster.node_name(id).to_owned()).collect(),
        }
    }
}

/// The nodes that filters of the profile rejected.
pub(crate) fn by_filters(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    verdicts: &[Verdict],
) -> Arc<[RejectedNodes]> {
    group_rejected(verdicts)
        .into_iter()
        .filter_map(|group| {
            let Verdict::Rejected(filter, rejection) = group.verdict else {
                return None;
            };
            let plugin = framework.filters[filter].name().to_owned();
            let reasons = messages_in_order(cluster, pod, rejection.reason);
            Some(group.rejected_by(cluster, plugin, reasons))
        })
        .collect()
}

impl Filtered {
    /// The rejected nodes by reason.
    pub fn rejections(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Arc<[RejectedNodes]> {
        group_rejected(&self.verdicts)
            .into_iter()
            .map(|group| {
                let plugin = self.plugin(framework, group.verdict);
                let reasons = self.reasons(cluster, pod, group.verdict);
                group.rejected_by(cluster, plugin, reasons)
            })
            .collect()
    }
}

/// The node with the highest total beside the chosen one; the first of equals.
pub(crate) fn runner_up(
    totals: impl Iterator<Item = (NodeId, i64)>,
    chosen: NodeId,
) -> Option<NodeId> {
    totals
        .filter(|(id, _)| *id != chosen)
        // Not `max_by_key`, which returns the last of equals.
        .reduce(|best, other| if other.1 > best.1 { other } else { best })
        .map(|(id, _)| id)
}

impl Scores {
    /// The runner-up among the feasible nodes, and the scores of both.
    pub(crate) fn deciding(
        &self,
        nodes: &[NodeId],
        chosen: NodeId,
    ) -> Option<(NodeId, Vec<DecidingScore>)> {
        let totals = nodes.iter().copied().zip(self.totals.iter().copied());
        let second = runner_up(totals, chosen)?;
        let at = |wanted: NodeId| nodes.iter().position(|id| *id == wanted);
        let (first, other) = (at(chosen)?, at(second)?);
        let scores = self.plugins.iter().map(|plugin| DecidingScore {
            plugin: plugin.name.clone(),
            weight: plugin.weight,
            chosen: plugin.normalized[first],
            runner_up: plugin.normalized[other],
        });
        Some((second, scores.collect()))
    }
}
