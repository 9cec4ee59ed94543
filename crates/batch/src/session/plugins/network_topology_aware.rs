//! Plugin network-topology-aware: pods of a job near to each other, and full groups of nodes first (S6-178 to S6-185).

use super::{OnNode, Plugin};
use crate::conf::Arguments;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::{HyperNodeId, HyperNodes};
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::{Dim, Resource, Unnamed};
use crate::session::snapshot::sub_jobs::{Nearness, SubJob};
use evictd_placement::NodeId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest score of a plugin.
const MOST: f64 = 100.0;

/// The most tiers between the lowest and the highest that count where no group has them.
const MOST_TIERS: i32 = 1000;

/// How much of the groups is taken.
#[derive(Debug, Default)]
struct Amounts {
    allocatable: Resource,
    /// Follows the placements of the session.
    used: Resource,
    /// When the session opened.
    idle: Resource,
    future_idle: Resource,
}

#[derive(Debug)]
pub(super) struct NetworkTopologyAware {
    weight: f64,
    by_dim: Vec<(Dim, f64)>,
    packs_others: bool,
    fading: f64,
    /// The most groups in which evictions are tried.
    most_evicting: usize,
    hyper_nodes: Arc<HyperNodes>,
    /// By group.
    amounts: Vec<Amounts>,
}

/// A group in which the tasks of a job are tried, and whether the search may evict pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Allocate,
    Evict,
}

impl NetworkTopologyAware {
    pub(super) fn open(snapshot: &Snapshot, arguments: &Arguments) -> Self {
        // A negative weight counts as the default.
        let number = |key: &str| {
            let weight = arguments.whole(key, 1.0);
            if weight < 0.0 { 1.0 } else { weight }
        };
        let mut by_dim = vec![
            (Dim::CPU, number("hypernode.binpack.cpu")),
            (Dim::MEMORY, number("hypernode.binpack.memory")),
        ];
        let more = arguments
            .text("hypernode.binpack.resources")
            .unwrap_or_default();
        let names = more.split(',').map(str::trim);
        for name in names.filter(|name| !name.is_empty() && !["cpu", "memory"].contains(name)) {
            let weight = number(&format!("hypernode.binpack.resources.{name}"));
            by_dim.extend(snapshot.dims.find(name).map(|dim| (dim, weight)));
        }
        let fading = arguments.number("hypernode.binpack.normal-pod.fading", 0.8);
        let most = arguments.whole("hypernode.gradient.evict.max-hypernodes", 8.0);
        let hyper_nodes = Arc::clone(&snapshot.hyper_nodes);
        let amounts = hyper_nodes.ids().map(|id| {
            let mut amounts = Amounts::default();
            for node in &hyper_nodes.at(id).nodes {
                let node = &snapshot.nodes[node.index()];
                amounts.allocatable.add(&node.allocatable);
                amounts.used.add(&node.used);
                amounts.idle.add(&node.idle);
                amounts.future_idle.add(&node.future_idle());
            }
            amounts
        });
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is at least one"
        )]
        let most_evicting = if most >= 1.0 { most as usize } else { 8 };
        Self {
            weight: number("weight"),
            by_dim,
            packs_others: arguments.boolean("hypernode.binpack.normal-pod.enable", true),
            fading: if fading < 0.0 { 0.8 } else { fading },
            most_evicting,
            amounts: amounts.collect(),
            hyper_nodes,
        }
    }

    fn weight_of(&self, dim: Dim) -> Option<f64> {
        let mut weights = self.by_dim.iter().rev();
        weights
            .find(|(known, _)| *known == dim)
            .map(|(_, weight)| *weight)
    }

    /// How full a group becomes in the requested resources; zero where it has too little.
    fn fullness(&self, id: HyperNodeId, request: &Resource) -> f64 {
        let amounts = &self.amounts[id.index()];
        let (mut score, mut weights) = (0.0, 0.0);
        for (dim, asked) in request.iter() {
            let Some(weight) = self.weight_of(dim) else {
                continue;
            };
            let (there, used) = (amounts.allocatable.get(dim), amounts.used.get(dim) + asked);
            if used > there {
                return 0.0;
            }
            if there > 0.0 {
                score += weight * used / there;
            }
            weights += weight;
        }
        if weights > 0.0 { score / weights } else { 0.0 }
    }

    /// The part of a sub-job's tasks that are on nodes of a group.
    fn part_in(&self, snapshot: &Snapshot, part: &SubJob, id: Option<HyperNodeId>) -> f64 {
        let placed = part.tasks.iter().filter(|task| {
            let node = snapshot.tasks[**task].node;
            id.zip(node)
                .is_some_and(|(id, node)| self.hyper_nodes.contains(id, node))
        });
        ratio(placed.count(), part.tasks.len())
    }

    /// The score of a group by its distance from the group of the tasks so far.
    fn near(&self, id: Option<HyperNodeId>, allocated: HyperNodeId) -> f64 {
        let Some(id) = id else { return 0.0 };
        if id == allocated {
            return 1.0;
        }
        let Some(common) = self.hyper_nodes.common(Some(id), Some(allocated)) else {
            return 0.0;
        };
        let (lowest, highest) = self.range();
        let tier = self.hyper_nodes.at(common).tier;
        if lowest == highest {
            1.0
        } else if (lowest..=highest).contains(&tier) {
            let distance = |tier: i32| f64::from(highest) - f64::from(tier);
            distance(tier) / distance(lowest)
        } else {
            0.0
        }
    }

    fn range(&self) -> (i32, i32) {
        let tiers = self.hyper_nodes.tiers();
        let range = tiers.first().copied().zip(tiers.last().copied());
        range.unwrap_or((0, 0))
    }

    /// Nodes near to the placed tasks of the part first.
    fn scores_nearby(&self, snapshot: &Snapshot, part: &SubJob, nodes: &[NodeId]) -> Vec<f64> {
        let Some(allocated) = part.current else {
            return vec![0.0; nodes.len()];
        };
        let groups: Vec<_> = nodes
            .iter()
            .map(|node| self.hyper_nodes.lowest_of(*node))
            .collect();
        let scores = groups.iter().map(|group| self.near(*group, allocated));
        let mut scores: Vec<f64> = scores.collect();
        self.break_ties(snapshot, part, &mut scores, &groups);
        scores
    }

    /// Adds to each of the best scores, if there are several, the part of the tasks that are in the group.
    fn break_ties(
        &self,
        snapshot: &Snapshot,
        part: &SubJob,
        scores: &mut [f64],
        groups: &[Option<HyperNodeId>],
    ) {
        let best = scores.iter().copied().fold(-1.0, f64::max);
        let is_best = |score: f64| score.total_cmp(&best).is_eq();
        if scores.iter().filter(|score| is_best(**score)).count() <= 1 {
            return;
        }
        let mut shares: BTreeMap<Option<HyperNodeId>, f64> = BTreeMap::new();
        for (score, group) in scores.iter_mut().zip(groups) {
            if is_best(*score) {
                let share = shares.entry(*group);
                *score += *share.or_insert_with(|| self.part_in(snapshot, part, *group));
            }
        }
    }

    /// Scores from 0 to 100, by the weight of the plugin.
    fn weighted(&self, scores: Vec<f64>) -> Vec<f64> {
        let scores = scores.into_iter();
        scores.map(|score| score * MOST * self.weight).collect()
    }

    /// Nodes of full groups first, and those of no group before all.
    fn scores_by_fullness(&self, request: &Resource, nodes: &[NodeId]) -> Vec<f64> {
        let (lowest, highest) = self.range();
        let tiers: Vec<i32> = if highest.saturating_sub(lowest) <= MOST_TIERS {
            (lowest..=highest).collect()
        } else {
            self.hyper_nodes.tiers().to_vec()
        };
        let weights = tiers
            .iter()
            .map(|tier| self.fading.powi(tier.saturating_sub(1)));
        let weights: Vec<f64> = weights.collect();
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return vec![0.0; nodes.len()];
        }
        let mut known: BTreeMap<HyperNodeId, f64> = BTreeMap::new();
        let mut score = |node: NodeId| {
            let groups = self.hyper_nodes.of_node(node);
            let mut sum = 0.0;
            for (tier, weight) in tiers.iter().zip(&weights) {
                let mut groups = groups.iter().copied();
                let group = groups.find(|id| {
                    self.hyper_nodes.exists(*id) && self.hyper_nodes.at(*id).tier == *tier
                });
                let full = group.map_or(1.0, |id| {
                    *known
                        .entry(id)
                        .or_insert_with(|| self.fullness(id, request))
                });
                sum += weight * full;
            }
            sum / total
        };
        nodes.iter().map(|node| score(*node)).collect()
    }

    /// Whether a group may be tried for tasks that need so much.
    fn is_eligible(&self, id: HyperNodeId, need: &Resource, purpose: Purpose) -> bool {
        let amounts = &self.amounts[id.index()];
        let fits = |room: &Resource| need.within(room, Unnamed::Zero);
        match purpose {
            Purpose::Evict => fits(&amounts.allocatable),
            Purpose::Allocate => fits(&amounts.idle) || fits(&amounts.future_idle),
        }
    }

    /// The groups below `root` up to a tier, the lowest tier first.
    fn up_to(
        &self,
        root: HyperNodeId,
        tier: i32,
        (allocated, need): (Option<HyperNodeId>, Option<&Resource>),
        purpose: Purpose,
    ) -> Vec<Vec<HyperNodeId>> {
        let Some(root) = self.search_root(root, tier, allocated) else {
            return Vec::new();
        };
        let mut by_tier: BTreeMap<i32, Vec<HyperNodeId>> = BTreeMap::new();
        let mut below = self.hyper_nodes.below(root);
        below.sort_unstable();
        for id in below {
            let group = self.hyper_nodes.at(id);
            let has_room = |need: &Resource| self.is_eligible(id, need, purpose);
            let eligible = allocated.is_some() || need.is_none_or(has_room);
            if group.tier <= tier && eligible {
                by_tier.entry(group.tier).or_default().push(id);
            }
        }
        let tiers = by_tier.into_values();
        match purpose {
            Purpose::Allocate => tiers.collect(),
            Purpose::Evict => {
                let mut left = self.most_evicting;
                let tiers = tiers.rev().map(|mut tier| {
                    let taken = tier.split_off(tier.len().saturating_sub(left));
                    left -= taken.len();
                    taken
                });
                tiers.filter(|tier| !tier.is_empty()).collect()
            }
        }
    }

    /// Where the search begins: the widest group that the placed tasks permit, as far as it lies in `root`.
    fn search_root(
        &self,
        root: HyperNodeId,
        tier: i32,
        allocated: Option<HyperNodeId>,
    ) -> Option<HyperNodeId> {
        let Some(allocated) = allocated else {
            return Some(root);
        };
        let above = self.hyper_nodes.ancestors(allocated).into_iter();
        let permitted = above.take_while(|id| self.hyper_nodes.at(*id).tier <= tier);
        let widest = permitted.last()?;
        match self.hyper_nodes.common(Some(root), Some(widest)) {
            Some(common) if common == widest => Some(root),
            Some(common) if common == root => Some(widest),
            _ => None,
        }
    }
}

impl Plugin for NetworkTopologyAware {
    fn gradient(
        &self,
        nearness: Nearness,
        root: HyperNodeId,
        (allocated, need): (Option<HyperNodeId>, Option<&Resource>),
        purpose: Purpose,
    ) -> Option<Vec<Vec<HyperNodeId>>> {
        Some(match nearness.tier() {
            Some(tier) => self.up_to(root, tier, (allocated, need), purpose),
            None => vec![vec![root]],
        })
    }

    fn group_scores(
        &self,
        snapshot: &Snapshot,
        part: &SubJob,
        groups: &[HyperNodeId],
    ) -> Option<Vec<f64>> {
        let mut request = Resource::default();
        for task in &part.tasks {
            request.add(&snapshot.tasks[*task].request);
        }
        let scores = groups.iter().map(|id| self.fullness(*id, &request));
        let mut scores: Vec<f64> = scores.collect();
        let groups: Vec<_> = groups.iter().copied().map(Some).collect();
        self.break_ties(snapshot, part, &mut scores, &groups);
        Some(self.weighted(scores))
    }

    fn scores_together(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        let task = &snapshot.tasks[task];
        let part = snapshot.sub_job_of(task);
        let asked = part.is_some_and(|part| part.nearness.is_asked());
        // Without HyperNodes all nodes have the same score.
        !self.hyper_nodes.is_flat() && self.weight > 0.0 && (asked || self.packs_others)
    }

    fn node_scores(&self, at: OnNode<'_>, nodes: &[NodeId]) -> Option<Vec<f64>> {
        let task = &at.snapshot.tasks[at.task];
        let part = at.snapshot.sub_job_of(task);
        let scores = match part.filter(|part| part.nearness.is_asked()) {
            Some(part) => self.scores_nearby(at.snapshot, part, nodes),
            None if self.packs_others => self.scores_by_fullness(&task.request, nodes),
            None => return None,
        };
        Some(self.weighted(scores))
    }

    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        let task = &snapshot.tasks[task];
        let groups = task.node.map(|node| self.hyper_nodes.of_node(node));
        for id in groups.into_iter().flatten() {
            self.amounts[id.index()].used.add(&task.request);
        }
    }

    fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        let task = &snapshot.tasks[task];
        let groups = task.node.map(|node| self.hyper_nodes.of_node(node));
        for id in groups.into_iter().flatten() {
            self.amounts[id.index()].used.sub(&task.request);
        }
    }
}

fn ratio(part: usize, whole: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "there are not so many tasks")]
    let (part, whole) = (part as f64, whole as f64);
    if whole > 0.0 { part / whole } else { 0.0 }
}
