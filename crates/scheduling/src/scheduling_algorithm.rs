//! One decision after the other. Pods of one workload come together, and often nothing couples them: then what every node
//! said about the one before still holds, but for the nodes to which pods came, or which some left.

use crate::cycle::{Filtered, Verdict};
use crate::evidence::{DecidingScore, Evidence, RejectedNodes, by_filters, runner_up};
use crate::framework::{Framework, TieBreak};
use crate::parallelize::split;
use evictd_placement::{
    Amounts, Checks, Cluster, Filter, Here, Labels, NodeId, Pod, Score, Scored, Symbol, Template,
};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

/// Where a pod goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleResult {
    /// Of the best nodes the one whose name comes first.
    pub chosen: NodeId,
    /// On how many nodes it fits.
    pub feasible: usize,
    /// The highest total; `None` if there was nothing to choose.
    pub score: Option<i64>,
    /// All nodes with that total.
    pub top: Vec<NodeId>,
    /// Why it is that node and no other.
    pub evidence: Evidence,
}

/// Decides, and keeps what it knows of the nodes for the next pod of the same kind.
#[derive(Default)]
pub struct SchedulingAlgorithm {
    kept: Option<Kept>,
}

/// Pods with the same of these are judged alike.
struct Key {
    scheduler_name: String,
    template: Template,
    /// Those that anybody goes by.
    labels: Labels,
    has_labels: bool,
    priority: i32,
    amounts: [i64; 3],
    scalars: Vec<(Symbol, i64)>,
    scored: Scored,
    of_containers: Option<Box<(Amounts, Scored)>>,
}

impl Key {
    fn new(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Self {
        let amounts = &pod.amounts;
        Self {
            scheduler_name: framework.scheduler_name.clone(),
            has_labels: !pod.labels().is_empty(),
            template: cluster.template(pod).clone(),
            labels: labels(framework, cluster, pod),
            priority: pod.priority,
            amounts: [amounts.cpu, amounts.memory, amounts.ephemeral_storage],
            scalars: cluster.scalars(amounts.scalars).to_vec(),
            scored: pod.scored,
            of_containers: pod.identity.of_containers.clone(),
        }
    }

    /// Whether it is the pod's, without making another one.
    fn is_of(&self, framework: &Framework, cluster: &Cluster, pod: &Pod) -> bool {
        let amounts = &pod.amounts;
        let Self {
            scheduler_name,
            template,
            labels: judged,
            has_labels,
            priority,
            amounts: common,
            scalars,
            scored,
            of_containers,
        } = self;
        *scheduler_name == framework.scheduler_name
            && *has_labels != pod.labels().is_empty()
            && *priority == pod.priority
            && *common == [amounts.cpu, amounts.memory, amounts.ephemeral_storage]
            && **scalars == *cluster.scalars(amounts.scalars)
            && *scored == pod.scored
            && *of_containers == pod.identity.of_containers
            && *template == *cluster.template(pod)
            && *judged == labels(framework, cluster, pod)
    }
}

/// The labels that anybody goes by.
fn labels(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Labels {
    if framework.has_custom_plugins {
        pod.labels().clone()
    } else {
        cluster.selected_labels(pod)
    }
}

/// What a pod is told that fits nowhere and that nobody goes for.
#[derive(Clone)]
pub(crate) struct UnschedulableResult {
    pub(crate) message: String,
    pub(crate) plugins: BTreeSet<String>,
    /// Whether it was looked for pods that could go.
    pub(crate) preempts: bool,
    /// Whether a nomination has to be cleared.
    pub(crate) clears_nomination: bool,
    pub(crate) rejections: Arc<[RejectedNodes]>,
}

struct CachedUnschedulable {
    /// After which change it was found.
    at: u64,
    /// Of pods that differ in this the nodes say the same, but not whether others could go for them.
    never_preempts: bool,
    hopeless: UnschedulableResult,
}

/// What every node said, by [`NodeId::index`].
struct Kept {
    key: Key,
    /// What came of it where no node would do.
    hopeless: Option<CachedUnschedulable>,
    /// After which change it was asked.
    at: u64,
    filters: Vec<Box<dyn Filter>>,
    /// The compiled filters as indices of the profile's.
    asked: Vec<usize>,
    verdicts: Vec<Verdict>,
    /// What the nodes said that will not do, once it was asked for, until a verdict changes.
    rejections: Option<Arc<[RejectedNodes]>>,
    scores: Vec<KeptScore>,
    /// [`IMPOSSIBLE`] for the nodes that will not do: to choose is to look at these alone.
    totals: Vec<i64>,
}

/// The total of a node that will not do.
const IMPOSSIBLE: i64 = i64::MIN;

struct KeptScore {
    name: String,
    score: Box<dyn Score>,
    weight: i64,
    raw: Vec<i64>,
    normalized: Vec<i64>,
}

impl SchedulingAlgorithm {
    /// Where a pod goes, and if it fits nowhere, what every node said.
    pub fn decide(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        self.decide_where(framework, cluster, pod, None)
    }

    /// What became of the last pod, if it was like this one, nothing has changed since and no node would do.
    pub(crate) fn hopeless(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Option<&UnschedulableResult> {
        let kept = self.kept.as_ref()?;
        let known = kept.hopeless.as_ref()?;
        let holds = known.at == cluster.changes().now()
            && known.never_preempts == pod.identity.never_preempts
            && pod.identity.nominated.is_none()
            && kept.key.is_of(framework, cluster, pod);
        holds.then_some(&known.hopeless)
    }

    /// Keeps that for the next pod like this one, which was just decided about.
    pub(crate) fn keep_hopeless(&mut self, pod: &Pod, hopeless: UnschedulableResult) {
        if let Some(kept) = &mut self.kept {
            kept.hopeless = Some(CachedUnschedulable {
                at: kept.at,
                never_preempts: pod.identity.never_preempts,
                hopeless,
            });
        }
    }

    /// What is kept of pods that could go does not hold any more.
    pub(crate) fn forget_hopeless(&mut self) {
        if let Some(kept) = &mut self.kept {
            kept.hopeless = None;
        }
    }

    /// The same among some of the nodes.
    pub(crate) fn decide_among(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        allowed: &dyn Fn(NodeId) -> bool,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        self.decide_where(framework, cluster, pod, Some(allowed))
    }

    fn decide_where(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        let kept = self.kept.take().filter(|kept| {
            kept.at >= cluster.changes().of_all()
                && pod.identity.nominated.is_none()
                && kept.key.is_of(framework, cluster, pod)
        });
        let mut kept = match kept {
            Some(mut kept) => {
                kept.update(cluster, pod);
                Some(kept)
            }
            None => Kept::new(framework, cluster, pod),
        };
        let chosen = kept.as_mut().and_then(|kept| {
            let mut decided = kept.choose(framework.tie_break, cluster, allowed)?;
            decided.evidence.rejections = kept.rejections(framework, cluster, pod);
            Some(decided)
        });
        if let Some(decided) = chosen {
            self.kept = kept;
            return Ok(decided);
        }
        if let Some(kept) = kept {
            let filtered = Filtered::of_verdicts(framework, kept.verdicts.clone());
            self.kept = Some(kept);
            return Err(Box::new(filtered));
        }
        let mut filtered = framework.filter(cluster, pod);
        if let Some(allowed) = allowed {
            filtered.feasible.retain(|id| allowed(*id));
        }
        if filtered.feasible.is_empty() {
            return Err(Box::new(filtered));
        }
        let scores = framework.score(cluster, pod, &filtered.feasible);
        let top = match &scores {
            Some(scores) => scores.top(&filtered.feasible),
            None => filtered.feasible.clone(),
        };
        let Some(chosen) = framework.tie_break.choose(cluster, &top) else {
            return Err(Box::new(filtered));
        };
        let mut evidence = Evidence {
            rejections: filtered.rejections(framework, cluster, pod),
            ..Evidence::default()
        };
        let scores = scores.as_ref();
        if let Some((second, own)) =
            scores.and_then(|scores| scores.deciding(&filtered.feasible, chosen))
        {
            evidence.runner_up = Some(cluster.node_name(second).to_owned());
            evidence.scores = own;
        }
        Ok(ScheduleResult {
            chosen,
            feasible: filtered.feasible.len(),
            score: scores.and_then(|scores| scores.totals.iter().copied().max()),
            top,
            evidence,
        })
    }
}

impl Kept {
    /// Asks every node; `None` where the answers cannot be kept.
    fn new(framework: &Framework, cluster: &Cluster, pod: &Pod) -> Option<Self> {
        let (checks, asked) = framework.checks(cluster, pod);
        let filters = checks.into_filters();
        let local = filters.iter().all(|filter| filter.is_local());
        if !local || pod.identity.nominated.is_some() || !framework.passes_before(cluster, pod) {
            return None;
        }
        let all: Vec<NodeId> = cluster.node_ids().collect();
        let plugins = framework.scores.iter();
        let scores = plugins.filter_map(|(plugin, weight)| {
            Some(KeptScore {
                name: plugin.name().to_owned(),
                score: plugin.score(cluster, pod, &all)?,
                weight: *weight,
                raw: vec![0; all.len()],
                normalized: vec![0; all.len()],
            })
        });
        let scores: Vec<KeptScore> = scores.collect();
        if !scores.iter().all(|own| own.score.is_local()) {
            return None;
        }
        let mut kept = Self {
            key: Key::new(framework, cluster, pod),
            hopeless: None,
            at: cluster.changes().now(),
            filters,
            asked,
            verdicts: vec![Verdict::NotTried; all.len()],
            rejections: None,
            scores,
            totals: vec![IMPOSSIBLE; all.len()],
        };
        kept.ask_all(framework, cluster, pod);
        kept.normalize();
        Some(kept)
    }

    /// Asks every node for the first time.
    fn ask_all(&mut self, framework: &Framework, cluster: &Cluster, pod: &Pod) {
        let mut checks = Checks::with(cluster, pod, std::mem::take(&mut self.filters));
        let (workers, count) = (&*framework.parallelizer, self.verdicts.len());
        let make = || framework.checks(cluster, pod).0;
        let asked = &self.asked;
        let look = |checks: &mut Checks<'_>, range: Range<usize>| {
            let verdict = |index| match checks.verdict(NodeId::of(index)) {
                Ok(()) => Verdict::Feasible,
                Err((filter, rejection)) => Verdict::Rejected(asked[filter], rejection),
            };
            range.map(verdict).collect()
        };
        self.verdicts = split(workers, count, &mut checks, &make, &look);
        self.filters = checks.into_filters();
        let feasible = cluster.node_ids().zip(&self.verdicts);
        let feasible = feasible.filter(|(_, verdict)| verdict.is_feasible());
        let feasible: Vec<NodeId> = feasible.map(|(id, _)| id).collect();
        let scores: Vec<&dyn Score> = self.scores.iter().map(|own| &*own.score).collect();
        let columns = framework.raw(&scores, cluster, &feasible);
        for (own, raw) in self.scores.iter_mut().zip(columns) {
            for (id, raw) in feasible.iter().zip(raw) {
                own.raw[id.index()] = raw;
                if own.score.is_normal() {
                    own.normalized[id.index()] = raw;
                }
            }
        }
    }

    /// Asks the nodes that have changed.
    fn update(&mut self, cluster: &Cluster, pod: &Pod) {
        let changes = cluster.changes();
        let touched: Vec<NodeId> = changes.nodes_since(self.at).collect();
        self.at = changes.now();
        if touched.is_empty() {
            return;
        }
        if self.ask(cluster, pod, &touched) {
            self.normalize();
        } else {
            for id in touched {
                self.sum(id.index());
            }
        }
    }

    /// Asks some nodes; whether others have to be compared anew.
    fn ask(&mut self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> bool {
        let mut checks = Checks::with(cluster, pod, std::mem::take(&mut self.filters));
        let mut anew = false;
        for id in nodes {
            let index = id.index();
            let verdict = match checks.verdict(*id) {
                Ok(()) => Verdict::Feasible,
                Err((filter, rejection)) => Verdict::Rejected(self.asked[filter], rejection),
            };
            let old = std::mem::replace(&mut self.verdicts[index], verdict);
            if old != verdict {
                self.rejections = None;
            }
            let feasible = verdict == Verdict::Feasible;
            anew |= (old == Verdict::Feasible) != feasible;
            if !feasible {
                continue;
            }
            for own in &mut self.scores {
                let raw = own.score.raw(Here::new(cluster, *id));
                let old = std::mem::replace(&mut own.raw[index], raw);
                if own.score.is_normal() {
                    own.normalized[index] = raw;
                } else {
                    anew |= old != raw;
                }
            }
        }
        self.filters = checks.into_filters();
        anew
    }

    /// Compares all nodes that will do.
    fn normalize(&mut self) {
        let feasible = || {
            let verdicts = self.verdicts.iter().enumerate();
            verdicts.filter(|(_, verdict)| verdict.is_feasible())
        };
        for own in self.scores.iter_mut().filter(|own| !own.score.is_normal()) {
            let mut scores: Vec<i64> = feasible().map(|(index, _)| own.raw[index]).collect();
            own.score.normalize(&mut scores);
            for ((index, _), score) in feasible().zip(scores) {
                own.normalized[index] = score;
            }
        }
        for index in 0..self.totals.len() {
            self.sum(index);
        }
    }

    fn sum(&mut self, index: usize) {
        if !self.verdicts[index].is_feasible() {
            self.totals[index] = IMPOSSIBLE;
            return;
        }
        let weighted = self
            .scores
            .iter()
            .map(|own| own.normalized[index] * own.weight);
        self.totals[index] = weighted.sum();
    }

    /// The nodes that will do, with their totals.
    fn possible(
        &self,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> impl Iterator<Item = (NodeId, i64)> {
        let totals = self.totals.iter().enumerate();
        let possible = totals.filter(|(_, total)| **total != IMPOSSIBLE);
        let possible = possible.map(|(index, total)| (NodeId::of(index), *total));
        possible.filter(move |(id, _)| allowed.is_none_or(|allowed| allowed(*id)))
    }

    /// The best node, if any will do.
    fn choose(
        &self,
        tie_break: TieBreak,
        cluster: &Cluster,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Option<ScheduleResult> {
        let (mut top, mut best, mut count) = (Vec::new(), i64::MIN, 0);
        for (id, total) in self.possible(allowed) {
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
            evidence: self.evidence(cluster, chosen, &top, allowed),
            top,
        })
    }

    /// What the nodes said that will not do.
    fn rejections(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Arc<[RejectedNodes]> {
        let verdicts = &self.verdicts;
        let said = || by_filters(framework, cluster, pod, verdicts);
        Arc::clone(self.rejections.get_or_insert_with(said))
    }

    /// What decided between the chosen node, one of the best, and the next best.
    fn evidence(
        &self,
        cluster: &Cluster,
        chosen: NodeId,
        top: &[NodeId],
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Evidence {
        let mut equals = top.iter().copied().filter(|id| *id != chosen);
        let second = equals
            .next()
            .or_else(|| runner_up(self.possible(allowed), chosen));
        let scores = second.into_iter().flat_map(|second| {
            self.scores.iter().map(move |own| DecidingScore {
                plugin: own.name.clone(),
                weight: own.weight,
                chosen: own.normalized[chosen.index()],
                runner_up: own.normalized[second.index()],
            })
        });
        Evidence {
            rejections: Arc::default(),
            runner_up: second.map(|id| cluster.node_name(id).to_owned()),
            scores: scores.collect(),
        }
    }
}
