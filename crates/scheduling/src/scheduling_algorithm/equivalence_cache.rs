//! The filter results and scores of all nodes for one equivalence class.

use super::equivalence_class::EquivalenceClass;
use super::{ScheduleResult, UnschedulableResult};
use crate::config::Point;
use crate::cycle::Verdict;
use crate::evidence::{DecidingScore, Evidence, RejectedNodes, by_filters, runner_up};
use crate::framework::{Framework, TieBreak};
use crate::parallelize::split;
use crate::pre_filter::Prepared;
use crate::recorder::{PluginRuns, SUCCESS};
use evictd_placement::{Checks, Cluster, Filter, Here, NodeId, Pod, Score};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Vectors by node are indexed by [`NodeId::index`].
pub(super) struct EquivalenceCache {
    class: EquivalenceClass,
    unschedulable: Option<CachedUnschedulable>,
    /// The change of the cluster up to which the results hold.
    at: u64,
    filters: Vec<Box<dyn Filter>>,
    /// The index of each compiled filter among the filters of the profile.
    filter_indices: Vec<usize>,
    verdicts: Vec<Verdict>,
    /// The rejected nodes by reason, once they were needed, until a verdict changes.
    rejections: Option<Arc<[RejectedNodes]>>,
    scores: Vec<CachedScore>,
    /// [`INFEASIBLE`] for rejected nodes, so that the choice of a node reads only this vector.
    totals: Vec<i64>,
}

struct CachedUnschedulable {
    /// The change of the cluster after which it was found.
    at: u64,
    /// Pods of one class may differ in this. Their filter results are the same, but not their preemptions.
    never_preempts: bool,
    result: UnschedulableResult,
}

struct CachedScore {
    name: String,
    score: Box<dyn Score>,
    weight: i64,
    raw: Vec<i64>,
    normalized: Vec<i64>,
}

/// The total score of a rejected node.
const INFEASIBLE: i64 = i64::MIN;

/// Whether the pod has a nominated node. A pod of a gang is tried without it, but its nomination still counts for others.
fn has_nomination(cluster: &Cluster, pod: &Pod) -> bool {
    pod.identity.nominated.is_some() || cluster.is_nominated(pod)
}

impl EquivalenceCache {
    /// Evaluates every node.
    ///
    /// # Errors
    /// The preparation, if the results cannot be cached because they depend on other nodes or on a nomination.
    pub(super) fn new(
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        prepared: Prepared,
    ) -> Result<Self, Box<Prepared>> {
        let is_local = |filter: &(usize, Box<dyn Filter>)| filter.1.is_local();
        if !prepared.leaves_all_nodes()
            || has_nomination(cluster, pod)
            || !prepared.filters.iter().all(is_local)
        {
            return Err(Box::new(prepared));
        }
        let nodes: Vec<NodeId> = cluster.node_ids().collect();
        let mut scores = Vec::new();
        let mut runs = PluginRuns::new(&*framework.recorder, Point::PreScore);
        let began = framework.recorder.now();
        for (plugin, weight) in &framework.scores {
            let score = framework.pre_score(plugin, (cluster, pod), &nodes, &mut runs);
            let Some(score) = score else {
                continue;
            };
            if !score.is_local() {
                return Err(Box::new(prepared));
            }
            scores.push(CachedScore {
                name: plugin.name().to_owned(),
                score,
                weight: *weight,
                raw: vec![0; nodes.len()],
                normalized: vec![0; nodes.len()],
            });
        }
        let took = framework.recorder.now().saturating_sub(began);
        let (filter_indices, filters) = prepared.filters.into_iter().unzip();
        let mut cache = Self {
            class: EquivalenceClass::of(framework, cluster, pod),
            unschedulable: None,
            at: cluster.changes().now(),
            filters,
            filter_indices,
            verdicts: vec![Verdict::NotTried; nodes.len()],
            rejections: None,
            scores,
            totals: vec![INFEASIBLE; nodes.len()],
        };
        let (feasible, filtered) = cache.evaluate_all(framework, cluster, pod);
        cache.normalize(framework);
        // As S5-054: a single node is not scored.
        if feasible > 1 {
            framework.record(Point::PreScore, SUCCESS, took);
            runs.record();
            let took = framework.recorder.now().saturating_sub(filtered);
            framework.record(Point::Score, SUCCESS, took);
        }
        Ok(cache)
    }

    /// Whether [`Self::update`] makes it valid for this pod.
    pub(super) fn holds_for(&self, framework: &Framework, cluster: &Cluster, pod: &Pod) -> bool {
        self.at >= cluster.changes().of_all()
            && !has_nomination(cluster, pod)
            && self.class.contains(framework, cluster, pod)
    }

    pub(super) fn verdicts(&self) -> &[Verdict] {
        &self.verdicts
    }

    pub(super) fn unschedulable(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Option<&UnschedulableResult> {
        let cached = self.unschedulable.as_ref()?;
        let holds = cached.at == cluster.changes().now()
            && cached.never_preempts == pod.identity.never_preempts
            && !has_nomination(cluster, pod)
            && self.class.contains(framework, cluster, pod);
        holds.then_some(&cached.result)
    }

    pub(super) fn set_unschedulable(&mut self, pod: &Pod, result: UnschedulableResult) {
        self.unschedulable = Some(CachedUnschedulable {
            at: self.at,
            never_preempts: pod.identity.never_preempts,
            result,
        });
    }

    pub(super) fn forget_unschedulable(&mut self) {
        self.unschedulable = None;
    }

    /// Returns how many nodes are feasible, and the time when all were filtered.
    fn evaluate_all(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> (usize, Duration) {
        let began = framework.recorder.now();
        let mut checks = Checks::with(cluster, pod, std::mem::take(&mut self.filters));
        let make = || framework.compile_filters(cluster, pod).0;
        let indices = &self.filter_indices;
        let evaluate = |checks: &mut Checks<'_>, range: Range<usize>| {
            range
                .map(|node| match checks.verdict(NodeId::of(node)) {
                    Ok(()) => Verdict::Feasible,
                    Err((filter, rejection)) => Verdict::Rejected(indices[filter], rejection),
                })
                .collect()
        };
        let (parallelizer, count) = (&*framework.parallelizer, self.verdicts.len());
        self.verdicts = split(parallelizer, count, &mut checks, &make, &evaluate);
        let filtered = framework.recorder.now();
        framework.record(Point::Filter, SUCCESS, filtered.saturating_sub(began));
        let ended = self.verdicts.iter();
        let ended = ended.filter_map(|verdict| verdict.last_filter(framework.filters.len()));
        framework.count_filters(indices, ended);
        framework.sample_filters(indices, &mut checks, count);
        self.filters = checks.into_filters();
        let feasible: Vec<NodeId> = cluster
            .node_ids()
            .zip(&self.verdicts)
            .filter(|(_, verdict)| verdict.is_feasible())
            .map(|(id, _)| id)
            .collect();
        let scores: Vec<&dyn Score> = self.scores.iter().map(|cached| &*cached.score).collect();
        let columns = framework.raw_scores(&scores, cluster, &feasible);
        let names = self.scores.iter().map(|cached| &*cached.name);
        framework.count_scores(names.clone(), feasible.len());
        framework.sample_scores(names, &scores, cluster, &feasible);
        for (cached, raw) in self.scores.iter_mut().zip(columns) {
            for (id, raw) in feasible.iter().zip(raw) {
                cached.raw[id.index()] = raw;
                if cached.score.is_normal() {
                    cached.normalized[id.index()] = raw;
                }
            }
        }
        (feasible.len(), filtered)
    }

    /// Evaluates the nodes that have changed. Returns how many there are.
    pub(super) fn update(&mut self, framework: &Framework, cluster: &Cluster, pod: &Pod) -> usize {
        let began = framework.recorder.now();
        let evaluated = self.update_changed(framework, cluster, pod);
        // Nodes are filtered and scored one after the other here.
        let took = framework.recorder.now().saturating_sub(began);
        framework.record(Point::Filter, SUCCESS, took);
        evaluated
    }

    fn update_changed(&mut self, framework: &Framework, cluster: &Cluster, pod: &Pod) -> usize {
        let changes = cluster.changes();
        let nodes: Vec<NodeId> = changes.nodes_since(self.at).collect();
        self.at = changes.now();
        if nodes.is_empty() {
            return 0;
        }
        if self.evaluate(cluster, pod, &nodes) {
            self.normalize(framework);
        } else {
            for id in &nodes {
                self.update_total(id.index());
            }
        }
        nodes.len()
    }

    /// Returns whether the normalized scores of other nodes change with these.
    fn evaluate(&mut self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> bool {
        let mut checks = Checks::with(cluster, pod, std::mem::take(&mut self.filters));
        let mut affects_others = false;
        for id in nodes {
            let node = id.index();
            let verdict = match checks.verdict(*id) {
                Ok(()) => Verdict::Feasible,
                Err((filter, rejection)) => {
                    Verdict::Rejected(self.filter_indices[filter], rejection)
                }
            };
            let old = std::mem::replace(&mut self.verdicts[node], verdict);
            if old != verdict {
                self.rejections = None;
            }
            // The best raw score, to which the others are normalized, may come or go with the node.
            affects_others |= old.is_feasible() != verdict.is_feasible();
            if !verdict.is_feasible() {
                continue;
            }
            for cached in &mut self.scores {
                let raw = cached.score.raw(Here::new(cluster, *id));
                let old = std::mem::replace(&mut cached.raw[node], raw);
                if cached.score.is_normal() {
                    cached.normalized[node] = raw;
                } else {
                    affects_others |= old != raw;
                }
            }
        }
        self.filters = checks.into_filters();
        affects_others
    }

    /// Normalizes the scores of all feasible nodes, and adds them up.
    fn normalize(&mut self, framework: &Framework) {
        let feasible = || {
            let verdicts = self.verdicts.iter().enumerate();
            verdicts.filter(|(_, verdict)| verdict.is_feasible())
        };
        for cached in &mut self.scores {
            if cached.score.is_normal() {
                continue;
            }
            let mut scores: Vec<i64> = feasible().map(|(node, _)| cached.raw[node]).collect();
            // A single node is not scored.
            if scores.len() > 1 {
                framework.normalize(&cached.name, &*cached.score, &mut scores);
            } else {
                cached.score.normalize(&mut scores);
            }
            for ((node, _), score) in feasible().zip(scores) {
                cached.normalized[node] = score;
            }
        }
        for node in 0..self.totals.len() {
            self.update_total(node);
        }
    }

    fn update_total(&mut self, node: usize) {
        self.totals[node] = if self.verdicts[node].is_feasible() {
            self.scores
                .iter()
                .map(|cached| cached.normalized[node] * cached.weight)
                .sum()
        } else {
            INFEASIBLE
        };
    }

    /// The feasible nodes with their totals.
    pub(super) fn feasible(
        &self,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> impl Iterator<Item = (NodeId, i64)> {
        self.totals
            .iter()
            .enumerate()
            .filter(|(_, total)| **total != INFEASIBLE)
            .map(|(node, total)| (NodeId::of(node), *total))
            .filter(move |(id, _)| allowed.is_none_or(|allowed| allowed(*id)))
    }

    /// The best node, if any is feasible.
    pub(super) fn select_host(
        &self,
        tie_break: TieBreak,
        cluster: &Cluster,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Option<ScheduleResult> {
        let (mut top, mut best, mut count) = (Vec::new(), i64::MIN, 0);
        for (id, total) in self.feasible(allowed) {
            count += 1;
            if total > best {
                best = total;
                top.clear();
            }
            if total == best {
                top.push(id);
            }
        }
        let chosen = tie_break.choose(cluster, &top)?;
        Some(ScheduleResult {
            chosen,
            feasible: count,
            score: (count > 1).then_some(best),
            nodes: Vec::new(),
            evidence: self.evidence(cluster, chosen, &top, allowed),
            top,
        })
    }

    /// The rejected nodes by reason.
    pub(super) fn rejections(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Arc<[RejectedNodes]> {
        let verdicts = &self.verdicts;
        let rejections = self
            .rejections
            .get_or_insert_with(|| by_filters(framework, cluster, pod, verdicts));
        Arc::clone(rejections)
    }

    /// The scores of the chosen node, one of the best, and of the runner-up.
    fn evidence(
        &self,
        cluster: &Cluster,
        chosen: NodeId,
        top: &[NodeId],
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Evidence {
        let second = top
            .iter()
            .copied()
            .find(|id| *id != chosen)
            .or_else(|| runner_up(self.feasible(allowed), chosen));
        let scores = second.into_iter().flat_map(|second| {
            self.scores.iter().map(move |cached| DecidingScore {
                plugin: cached.name.clone(),
                weight: cached.weight,
                chosen: cached.normalized[chosen.index()],
                runner_up: cached.normalized[second.index()],
            })
        });
        Evidence {
            rejections: Arc::default(),
            runner_up: second.map(|id| cluster.node_name(id).to_owned()),
            scores: scores.collect(),
        }
    }
}
