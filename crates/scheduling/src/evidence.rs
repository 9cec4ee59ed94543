//! Why a pod got its node and not another, for whoever asks later: what the other nodes said, and what decided between those that
//! would have done.

use crate::cycle::{Filtered, Scores, Verdict};
use crate::framework::Framework;
use evictd_placement::filter::messages_in_order;
use evictd_placement::{Cluster, NodeId, Pod};
use serde::Serialize;
use std::sync::Arc;

/// So many nodes of those that said the same are named.
const NAMED: usize = 8;

/// Nodes that would not do for the same reasons.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RejectedNodes {
    /// Who says so; `Extender` for any of them.
    pub plugin: String,
    /// In kube-scheduler's words.
    pub reasons: Vec<String>,
    /// How many nodes.
    pub count: usize,
    /// The names of some of them.
    pub nodes: Vec<String>,
}

/// What a plugin gave to the node that was chosen, from 0 to 100, and what to the next best.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DecidingScore {
    /// The plugin.
    pub plugin: String,
    /// How much its score counts.
    pub weight: i64,
    /// Of the node that was chosen.
    pub chosen: i64,
    /// Of the next best.
    pub runner_up: i64,
}

/// Why a pod goes where it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evidence {
    /// The nodes that would not do.
    pub rejections: Arc<[RejectedNodes]>,
    /// The next best node; `None` where there was no choice.
    pub runner_up: Option<String>,
    /// What the plugins gave to both.
    pub scores: Vec<DecidingScore>,
}

/// Nodes with the same verdict: how many, and the first of them.
type Alike = (Verdict, usize, Vec<NodeId>);

/// Puts the nodes that will not do together by what they said. There are few different answers, and the same often follow
/// each other.
fn alike(verdicts: &[Verdict]) -> Vec<Alike> {
    let mut groups: Vec<Alike> = Vec::new();
    let mut last = 0;
    for (index, verdict) in verdicts.iter().enumerate() {
        if matches!(verdict, Verdict::Feasible | Verdict::NotTried) {
            continue;
        }
        if groups.get(last).is_none_or(|(own, ..)| own != verdict) {
            let known = groups.iter().position(|(own, ..)| own == verdict);
            last = known.unwrap_or(groups.len());
        }
        if last == groups.len() {
            groups.push((*verdict, 0, Vec::new()));
        }
        let (_, count, first) = &mut groups[last];
        *count += 1;
        if first.len() < NAMED {
            first.push(NodeId::of(index));
        }
    }
    groups
}

fn rejected(
    cluster: &Cluster,
    (_, count, first): Alike,
    plugin: String,
    reasons: Vec<String>,
) -> RejectedNodes {
    let names = first.into_iter().map(|id| cluster.node_name(id).to_owned());
    RejectedNodes {
        plugin,
        reasons,
        count,
        nodes: names.collect(),
    }
}

/// The nodes that filters of the profile rejected.
pub(crate) fn by_filters(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    verdicts: &[Verdict],
) -> Arc<[RejectedNodes]> {
    alike(verdicts)
        .into_iter()
        .filter_map(|own| {
            let Verdict::Rejected(filter, rejection) = own.0 else {
                return None;
            };
            let plugin = framework.filters[filter].name().to_owned();
            let reasons = messages_in_order(cluster, pod, rejection.reason);
            Some(rejected(cluster, own, plugin, reasons))
        })
        .collect()
}

impl Filtered {
    /// The nodes that would not do.
    pub fn rejections(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Arc<[RejectedNodes]> {
        alike(&self.verdicts)
            .into_iter()
            .map(|own| {
                let plugin = self.plugin(framework, own.0);
                let reasons = self.reasons(cluster, pod, own.0);
                rejected(cluster, own, plugin, reasons)
            })
            .collect()
    }
}

/// The place of the next best after the chosen one, by total; the first of equals.
pub(crate) fn runner_up(
    totals: impl Iterator<Item = (NodeId, i64)>,
    chosen: NodeId,
) -> Option<NodeId> {
    totals
        .filter(|(id, _)| *id != chosen)
        .reduce(|best, own| if own.1 > best.1 { own } else { best })
        .map(|(id, _)| id)
}

impl Scores {
    /// What the plugins gave to the chosen node and to the next best, of the nodes that passed.
    pub(crate) fn deciding(
        &self,
        nodes: &[NodeId],
        chosen: NodeId,
    ) -> Option<(NodeId, Vec<DecidingScore>)> {
        let totals = nodes.iter().copied().zip(self.totals.iter().copied());
        let second = runner_up(totals, chosen)?;
        let at = |wanted: NodeId| nodes.iter().position(|id| *id == wanted);
        let (first, other) = (at(chosen)?, at(second)?);
        let scores = self.plugins.iter().map(|own| DecidingScore {
            plugin: own.name.clone(),
            weight: own.weight,
            chosen: own.normalized[first],
            runner_up: own.normalized[other],
        });
        Some((second, scores.collect()))
    }
}
