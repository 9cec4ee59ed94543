//! The answers of all nodes for one equivalence class. While no filter or score looks beyond one node, only changed
//! nodes are evaluated again, and the best node is known without a scan.

use super::node_plugins::NodePlugins;
use super::winner_tree::{Rating, WinnerTree};
use super::{TaskKind, View};
use crate::session::snapshot::fit::{FitError, NO_REASON, ReasonId, Reasons, Refusal};
use crate::session::snapshot::ids::{DomainId, TaskId};
use crate::session::snapshot::resource::Resource;
use evictd_placement::{Filter, Here, NodeId, Pod, Rejection, Score, filter};
use hashbrown::HashMap;

/// The rating class of nodes with idle room, and of those with room after pending evictions.
pub(super) const IDLE: u8 = 2;
pub(super) const LATER: u8 = 1;

/// The reason of a node that takes no more pods.
pub(super) const CROWDED: &str = "node(s) pod number exceeded";

/// A score that is normalized over all nodes.
struct Scaled {
    score: Box<dyn Score>,
    weight: f64,
    /// By node.
    raw: Vec<i64>,
}

/// The key of an evaluation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct EvaluationKey {
    pub(super) kind: TaskKind,
    /// Whether nodes without room refuse.
    pub(super) needs_room: bool,
    /// Whether nodes refuse that are reserved for another job.
    pub(super) excluded: bool,
    /// Nodes elsewhere refuse.
    pub(super) within: Option<DomainId>,
}

#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(super) struct ClassEvaluation {
    pub(super) key: EvaluationKey,
    /// The result of `PreFilter`, as if every node had given it.
    pub(super) refused: Option<FitError>,
    request: Resource,
    /// The task that it was asked for last.
    pub(super) task: TaskId,
    /// The reason of nodes outside the domain.
    pub(super) elsewhere: ReasonId,
    filters: Vec<Box<dyn Filter>>,
    /// Whether nodes with as many pods as they take refuse.
    counts_pods: bool,
    /// The reasons so far: whether there are too many pods, and the rejection of each filter by its index.
    said: HashMap<(bool, Vec<(usize, Rejection)>), ReasonId>,
    scores: Vec<(Box<dyn Score>, f64)>,
    scaled: Vec<Scaled>,
    /// Whether an answer may depend on other nodes.
    pub(super) coupled: bool,
    /// Whether the scores of plugins depend on each other.
    pub(super) together: bool,
    /// Whether scores that are scaled are the same everywhere.
    pub(super) uniform: bool,
    /// After which change of the cluster it was compiled.
    at: u64,
    /// How much of the log it has seen.
    seen: usize,
    /// By node.
    pub(super) reasons: Vec<ReasonId>,
    /// The nodes that began to refuse, in this order. A turn reads only those that it has not read.
    pub(super) refusing: Vec<NodeId>,
    /// By rank.
    pub(super) ratings: WinnerTree,
    /// When it was last used.
    pub(super) used: u64,
    /// When it was made. No other one has the same number.
    pub(super) made: u64,
}

impl ClassEvaluation {
    /// Evaluates every node; none if `PreFilter` rejects the pod (S6-135).
    pub(super) fn new(
        view: View<'_>,
        node_plugins: &NodePlugins,
        reasons: &mut Reasons,
        (pod, request, task): (&Pod, &Resource, TaskId),
        (key, clock): (EvaluationKey, u64),
    ) -> Self {
        let cluster = view.cluster;
        let refused = node_plugins.refused(cluster, pod);
        let filters = node_plugins.filters.iter().filter(|_| refused.is_none());
        let filters: Vec<_> = filters
            .filter_map(|filter| filter.filter(cluster, pod))
            .collect();
        let beyond = view.plugins.look_beyond(view.snapshot, task);
        let mut coupled = beyond || !filters.iter().all(|filter| filter.is_local());
        let (mut scores, mut scaled) = (Vec::new(), Vec::new());
        let all: Vec<NodeId> = cluster.node_ids().collect();
        for scorer in &node_plugins.scorers {
            let Some(score) = scorer.plugin.score(cluster, pod, &all) else {
                continue;
            };
            if !score.is_local() {
                coupled = true;
            } else if scorer.normalizes && !score.is_normal() {
                scaled.push(Scaled {
                    score,
                    weight: scorer.weight,
                    raw: Vec::new(),
                });
            } else {
                scores.push((score, scorer.weight));
            }
        }
        let mut evaluation = Self {
            key,
            refused: None,
            request: request.clone(),
            task,
            elsewhere: key.within.map_or(NO_REASON, |within| {
                let texts = vec![format!(
                    "node(s) were outside {}",
                    view.domains.words(within)
                )];
                let unresolvable = true;
                reasons.intern(Refusal {
                    texts,
                    unresolvable,
                    ..Refusal::default()
                })
            }),
            filters,
            counts_pods: !node_plugins.filters.is_empty(),
            said: HashMap::new(),
            scores,
            scaled,
            coupled,
            together: view.plugins.score_together(view.snapshot, task),
            uniform: true,
            at: cluster.changes().now(),
            seen: view.log.len(),
            reasons: vec![NO_REASON; all.len()],
            refusing: Vec::new(),
            ratings: WinnerTree::new(Vec::new()),
            used: clock,
            made: clock,
        };
        if let Some(words) = refused {
            let refusal = Refusal {
                texts: vec![words],
                unresolvable: false,
                ..Refusal::default()
            };
            evaluation.reasons.fill(reasons.intern(refusal));
            evaluation.refused = Some(FitError::of_nodes(reasons, &evaluation.reasons));
        } else {
            evaluation.ask_all(view, node_plugins, reasons, pod);
        }
        evaluation
    }

    fn ask_all(
        &mut self,
        view: View<'_>,
        node_plugins: &NodePlugins,
        reasons: &mut Reasons,
        pod: &Pod,
    ) {
        let mut ratings = vec![Rating::OUT; self.reasons.len()];
        for (rank, node) in view.snapshot.by_rank.iter().enumerate() {
            ratings[rank] = self.ask(view, node_plugins, reasons, pod, *node);
        }
        self.ratings = WinnerTree::new(ratings);
        for scaled in &mut self.scaled {
            let here = |id| Here::new(view.cluster, id);
            let nodes = view.cluster.node_ids();
            scaled.raw = nodes.map(|id| scaled.score.raw(here(id))).collect();
            self.uniform &= scaled.raw.windows(2).all(|two| two[0] == two[1]);
        }
    }

    /// Asks one node, and rates it.
    fn ask(
        &mut self,
        view: View<'_>,
        node_plugins: &NodePlugins,
        reasons: &mut Reasons,
        pod: &Pod,
        node: NodeId,
    ) -> Rating {
        let reason = self.refusal(view, reasons, pod, node);
        let before = std::mem::replace(&mut self.reasons[node.index()], reason);
        if reason != NO_REASON {
            if before == NO_REASON {
                self.refusing.push(node);
            }
            return Rating::OUT;
        }
        let amounts = &view.snapshot.nodes[node.index()];
        let now = !self.key.needs_room || amounts.has_idle(&self.request);
        Rating {
            class: if now { IDLE } else { LATER },
            score: self.score(view, node_plugins, node),
        }
    }

    /// The part of a node's score that depends on nothing but the node.
    pub(super) fn score(&self, view: View<'_>, node_plugins: &NodePlugins, node: NodeId) -> f64 {
        let here = Here::new(view.cluster, node);
        let scores = self.scores.iter();
        #[expect(clippy::cast_precision_loss, reason = "scores are from 0 to 100")]
        let sum: f64 = scores
            .map(|(score, weight)| score.raw(here) as f64 * weight)
            .sum();
        let binpack = node_plugins.binpack.as_ref();
        sum + binpack.map_or(0.0, |binpack| {
            binpack.score(&view.snapshot.nodes[node.index()], &self.request)
        }) + self.score_by_plugins(view, node)
    }

    fn score_by_plugins(&self, view: View<'_>, node: NodeId) -> f64 {
        let scorers = view.plugins.node_scorers();
        scorers
            .map(|plugin| plugin.node_score(view.on(self.task, node)))
            .sum()
    }

    /// The reason of the first plugin that refuses a node, before or after the filters.
    fn refusal_by_plugins(&self, view: View<'_>, node: NodeId, before: bool) -> Option<Refusal> {
        let mut filters = view.plugins.node_filters(before);
        filters.find_map(|(name, plugin)| {
            let refusal = plugin.node_refusal(view.on(self.task, node))?;
            Some(Refusal {
                plugin: Some(name),
                ..refusal
            })
        })
    }

    /// The current reason of a node.
    pub(super) fn refusal(
        &mut self,
        view: View<'_>,
        reasons: &mut Reasons,
        pod: &Pod,
        node: NodeId,
    ) -> ReasonId {
        if !view.domains.reaches(self.key.within, node) {
            return self.elsewhere;
        }
        if self.key.excluded && view.is_reserved(node) {
            return reasons.intern(Refusal {
                texts: vec!["node(s) were kept for a job that has waited long".to_owned()],
                unresolvable: true,
                ..Refusal::default()
            });
        }
        if self.key.needs_room
            && let Some(dim) = view.snapshot.nodes[node.index()].lacks(&self.request)
        {
            return reasons.intern(Refusal {
                texts: vec![format!("Insufficient {}", view.snapshot.dims.name(dim))],
                unresolvable: false,
                ..Refusal::default()
            });
        }
        let here = Here::new(view.cluster, node);
        // Its pods may hold any amount of room.
        if here.node.unknown_pods > 0 {
            return reasons.intern(Refusal {
                texts: vec![filter::UNKNOWN_REQUESTS.to_owned()],
                unresolvable: true,
                ..Refusal::default()
            });
        }
        if let Some(refusal) = self.refusal_by_plugins(view, node, true) {
            return reasons.intern(refusal);
        }
        let crowded = !self.is_placeable(here);
        let mut said = Vec::new();
        for (index, filter) in self.filters.iter_mut().enumerate() {
            filter.enter(here);
            if let Err(rejection) = filter.check(here) {
                said.push((index, rejection));
                // Evictions cannot help, so that the reasons of later filters do not matter.
                if !rejection.is_resolvable() {
                    break;
                }
            }
        }
        if said.is_empty() && !crowded {
            let refusal = self.refusal_by_plugins(view, node, false);
            return refusal.map_or(NO_REASON, |refusal| reasons.intern(refusal));
        }
        let key = (crowded, said);
        if let Some(known) = self.said.get(&key) {
            return *known;
        }
        let said = &key.1;
        let texts = said.iter().map(|(_, rejection)| {
            filter::messages_in_order(view.cluster, pod, rejection.reason).join(", ")
        });
        let crowded = crowded.then(|| CROWDED.to_owned());
        let reason = reasons.intern(Refusal {
            texts: crowded.into_iter().chain(texts).collect(),
            unresolvable: said.iter().any(|(_, rejection)| !rejection.is_resolvable()),
            ..Refusal::default()
        });
        self.said.insert(key, reason);
        reason
    }

    /// Whether the local filters pass on a node, or the others.
    pub(super) fn passes(&mut self, view: View<'_>, node: NodeId, alone: bool) -> bool {
        let here = Here::new(view.cluster, node);
        let beyond = view.plugins.look_beyond(view.snapshot, self.task);
        let judged = beyond == alone
            || [true, false]
                .into_iter()
                .all(|before| self.refusal_by_plugins(view, node, before).is_none());
        let room = judged && (!alone || self.is_placeable(here) && here.node.unknown_pods == 0);
        let mut filters = self.filters.iter_mut();
        room && filters.all(|filter| {
            filter.is_local() != alone || {
                filter.enter(here);
                filter.check(here).is_ok()
            }
        })
    }

    /// Whether a node accepts one more pod. Terminating pods still count.
    fn is_placeable(&self, here: Here<'_>) -> bool {
        let pods = i64::try_from(here.node.pods.len()).unwrap_or(i64::MAX);
        !self.counts_pods || pods < here.node.allowed_pods
    }

    /// Evaluates changed nodes again. False if the whole evaluation is stale.
    pub(super) fn refresh(
        &mut self,
        view: View<'_>,
        node_plugins: &NodePlugins,
        reasons: &mut Reasons,
        pod: &Pod,
    ) -> bool {
        // The compiled filters may refer to changed objects.
        if view.cluster.changes().of_all() > self.at {
            return false;
        }
        if self.refused.is_some() {
            return true;
        }
        let changed = &view.log[self.seen..];
        if self.coupled {
            // A filter or score looks at other nodes, so that one changed node can change the answer of every other.
            return changed.is_empty();
        }
        // So many changes touch most nodes several times. One pass over all of them is cheaper.
        if changed.len() > self.reasons.len() {
            self.ask_all(view, node_plugins, reasons, pod);
        } else {
            for node in changed {
                let rating = self.ask(view, node_plugins, reasons, pod, *node);
                self.ratings.set(view.snapshot.ranks[node.index()], rating);
            }
        }
        self.seen = view.log.len();
        true
    }

    /// The scores of some nodes, including normalized ones.
    pub(super) fn totals(
        &self,
        view: View<'_>,
        node_plugins: &NodePlugins,
        pod: &Pod,
        nodes: &[NodeId],
    ) -> Vec<f64> {
        let mut totals: Vec<f64> = nodes
            .iter()
            .map(|node| self.score(view, node_plugins, *node))
            .collect();
        for scaled in &self.scaled {
            let mut scores: Vec<i64> = nodes.iter().map(|node| scaled.raw[node.index()]).collect();
            scaled.score.normalize(&mut scores);
            add(&mut totals, &scores, scaled.weight);
        }
        if self.coupled {
            let ids = nodes;
            for scorer in &node_plugins.scorers {
                let score = scorer.plugin.score(view.cluster, pod, ids);
                let Some(score) = score.filter(|score| !score.is_local()) else {
                    continue;
                };
                let here = ids.iter().map(|id| Here::new(view.cluster, *id));
                let mut scores: Vec<i64> = here.map(|here| score.raw(here)).collect();
                score.normalize(&mut scores);
                add(&mut totals, &scores, scorer.weight);
            }
        }
        if self.coupled || self.together {
            let ids = nodes;
            if let Some(first) = ids.first() {
                for plugin in view.plugins.node_scorers() {
                    let scores = plugin.node_scores(view.on(self.task, *first), ids);
                    for (total, score) in totals.iter_mut().zip(scores.into_iter().flatten()) {
                        *total += score;
                    }
                }
            }
        }
        totals
    }
}

fn add(totals: &mut [f64], scores: &[i64], weight: f64) {
    for (total, score) in totals.iter_mut().zip(scores) {
        #[expect(clippy::cast_precision_loss, reason = "scores are from 0 to 100")]
        let score = *score as f64;
        *total += score * weight;
    }
}
