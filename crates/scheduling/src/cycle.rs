//! The `PreFilter`, Filter and Score points: which nodes are feasible for a pod, and how good each of them is.

use crate::config::Point;
use crate::framework::Framework;
use crate::parallelize::split;
use crate::plugins::PluginName;
use crate::pre_filter::{PreFilterResult, Prepared};
use crate::recorder::{PluginRuns, SUCCESS, timed};
use evictd_placement::{
    Checks, Cluster, Code, DEVICES_GO_ON, Here, NodeId, Pod, Reason, Rejection, Score,
};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The result of the filters for one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It passed every filter.
    Feasible,
    /// The filter with this index among the filters of the profile rejected it.
    Rejected(usize, Rejection),
    /// A `PreFilter` plugin excluded it.
    Excluded,
    /// It was not tried, because the nominated node is feasible.
    NotTried,
    /// An extender rejected it, for the reason at this index of [`Filtered::by_extenders`].
    ByExtender(usize),
}

/// The results of the filters for a pod.
#[derive(Debug)]
pub struct Filtered {
    /// By [`NodeId::index`].
    pub verdicts: Vec<Verdict>,
    /// The nodes that passed, in the order of the cluster's nodes.
    pub feasible: Vec<NodeId>,
    /// Nodes with stuck victims: no pod is evicted there.
    pub not_freed: Vec<NodeId>,
    /// Why extenders rejected nodes, and whether the removal of pods could help there.
    pub by_extenders: Vec<(Code, String)>,
    pub(crate) pre_filter: PreFilterResult,
    /// The filters that had something to check, by their indices in the profile.
    active_filters: Vec<usize>,
}

/// The scores of one plugin, in the order of the feasible nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginScores {
    /// The plugin.
    pub name: String,
    /// Its weight.
    pub weight: i64,
    /// In the plugin's unit.
    pub raw: Vec<i64>,
    /// From 0 to 100.
    pub normalized: Vec<i64>,
}

/// The scores of the feasible nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    /// By plugin, in the profile's order.
    pub plugins: Vec<PluginScores>,
    /// Plugins that skipped this pod (`Skip` in `PreScore`).
    pub skipped: Vec<String>,
    /// The sum of the weighted scores, in the order of the feasible nodes.
    pub totals: Vec<i64>,
}

impl Framework {
    /// Runs every filter on every node. If the nominated node is feasible, the others are not tried (S5-044).
    pub fn filter(&self, cluster: &Cluster, pod: &Pod) -> Filtered {
        let prepared = Prepared::new(self, cluster, pod);
        self.filter_prepared(cluster, pod, prepared)
    }

    /// As [`Self::filter`], after its preparation.
    pub(crate) fn filter_prepared(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        prepared: Prepared,
    ) -> Filtered {
        let Prepared {
            result: pre_filter,
            filters,
        } = prepared;
        let count = cluster.nodes().len();
        if pre_filter.rejection.is_some() {
            return Filtered {
                verdicts: vec![Verdict::Excluded; count],
                feasible: Vec::new(),
                not_freed: Vec::new(),
                by_extenders: Vec::new(),
                pre_filter,
                active_filters: Vec::new(),
            };
        }
        let began = self.recorder.now();
        let (active_filters, filters): (Vec<usize>, _) = filters.into_iter().unzip();
        let mut checks = Checks::with(cluster, pod, filters);
        let verdict = |checks: &mut Checks<'_>, id: NodeId| {
            if !pre_filter.allows(cluster.node(id).name) {
                return Verdict::Excluded;
            }
            match checks.verdict(id) {
                Ok(()) => Verdict::Feasible,
                Err((index, rejection)) => Verdict::Rejected(active_filters[index], rejection),
            }
        };
        let nominated = pod
            .identity
            .nominated
            .and_then(|name| cluster.find_node(cluster.symbols().text(name)));
        let verdicts = match nominated {
            Some(id) if verdict(&mut checks, id) == Verdict::Feasible => {
                let mut verdicts = vec![Verdict::NotTried; count];
                verdicts[id.index()] = Verdict::Feasible;
                verdicts
            }
            _ => {
                let make = || self.compile_filters(cluster, pod).0;
                split(
                    &*self.parallelizer,
                    count,
                    &mut checks,
                    &make,
                    &|checks, range| {
                        range
                            .map(|node| verdict(checks, NodeId::of(node)))
                            .collect()
                    },
                )
            }
        };
        let took = self.recorder.now().saturating_sub(began);
        self.record(Point::Filter, SUCCESS, took);
        let ended = verdicts.iter();
        let ended = ended.filter_map(|verdict| verdict.last_filter(self.filters.len()));
        self.count_filters(&active_filters, ended);
        self.sample_filters(&active_filters, &mut checks, count);
        let feasible = cluster
            .node_ids()
            .zip(&verdicts)
            .filter(|(_, verdict)| verdict.is_feasible())
            .map(|(id, _)| id)
            .collect();
        Filtered {
            verdicts,
            feasible,
            not_freed: Vec::new(),
            by_extenders: Vec::new(),
            pre_filter,
            active_filters,
        }
    }

    /// The filters that have something to check for a pod, with their indices in the profile.
    pub(crate) fn compile_filters<'c>(
        &self,
        cluster: &'c Cluster,
        pod: &'c Pod,
    ) -> (Checks<'c>, Vec<usize>) {
        let (indices, filters) = self
            .filters
            .iter()
            .enumerate()
            .filter_map(|(index, plugin)| Some((index, plugin.filter(cluster, pod)?)))
            .unzip();
        (Checks::with(cluster, pod, filters), indices)
    }

    /// The plugin that rejects a pod on a node, with its messages; `None` if the pod fits.
    pub(crate) fn rejection(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        id: NodeId,
    ) -> Option<(String, Vec<String>)> {
        let Prepared { result, filters } = Prepared::new(self, cluster, pod);
        if let Some(rejection) = result.rejection {
            return Some((rejection.plugin, vec![rejection.reason]));
        }
        if !result.allows(cluster.node(id).name) {
            return Some((result.restricting_plugins(", "), Vec::new()));
        }
        let (indices, filters): (Vec<usize>, _) = filters.into_iter().unzip();
        let mut checks = Checks::with(cluster, pod, filters);
        let (index, rejection) = checks.verdict(id).err()?;
        let plugin = self.filters[indices[index]].name().to_owned();
        Some((plugin, checks.messages(rejection)))
    }

    /// Scores the feasible nodes; `None` for a single node (S5-054).
    pub fn score(&self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Scores> {
        if nodes.len() < 2 {
            return None;
        }
        let mut scores = Scores {
            totals: vec![0; nodes.len()],
            ..Scores::default()
        };
        let mut compiled = Vec::new();
        let mut runs = PluginRuns::new(&*self.recorder, Point::PreScore);
        let began = self.recorder.now();
        for (plugin, weight) in &self.scores {
            match self.pre_score(plugin, (cluster, pod), nodes, &mut runs) {
                Some(score) => compiled.push((plugin, *weight, score)),
                None => scores.skipped.push(plugin.name().to_owned()),
            }
        }
        let prepared = self.recorder.now();
        self.record(Point::PreScore, SUCCESS, prepared.saturating_sub(began));
        runs.record();
        let functions: Vec<&dyn Score> = compiled.iter().map(|(.., score)| &**score).collect();
        let columns = self.raw_scores(&functions, cluster, nodes);
        let names = compiled.iter().map(|(plugin, ..)| plugin.name());
        self.count_scores(names.clone(), nodes.len());
        self.sample_scores(names, &functions, cluster, nodes);
        for ((plugin, weight, score), raw) in compiled.iter().zip(columns) {
            let mut normalized = raw.clone();
            self.normalize(plugin.name(), &**score, &mut normalized);
            for (total, score) in scores.totals.iter_mut().zip(&normalized) {
                *total += score * weight;
            }
            scores.plugins.push(PluginScores {
                name: plugin.name().to_owned(),
                weight: *weight,
                raw,
                normalized,
            });
        }
        let took = self.recorder.now().saturating_sub(prepared);
        self.record(Point::Score, SUCCESS, took);
        Some(scores)
    }

    /// Normalizes the scores of a plugin.
    pub(crate) fn normalize(&self, plugin: &str, score: &dyn Score, scores: &mut [i64]) {
        // kube-scheduler's plugins without a normalization have no such duration.
        if score.is_normal() || !self.recorder.samples_plugins() {
            return score.normalize(scores);
        }
        let ((), took) = timed(&*self.recorder, || score.normalize(scores));
        self.recorder.on_normalized(plugin, took);
    }

    /// The raw scores of the nodes, a vector for each plugin.
    pub(crate) fn raw_scores(
        &self,
        scores: &[&dyn Score],
        cluster: &Cluster,
        nodes: &[NodeId],
    ) -> Vec<Vec<i64>> {
        // Node by node, so that each is fetched from memory once.
        let rows = |(): &mut (), range: Range<usize>| {
            let mut rows = Vec::with_capacity(range.len() * scores.len());
            for id in &nodes[range] {
                let here = Here::new(cluster, *id);
                rows.extend(scores.iter().map(|score| score.raw(here)));
            }
            rows
        };
        let rows = split(&*self.parallelizer, nodes.len(), &mut (), &|| (), &rows);
        let column = |index: usize| {
            rows.iter()
                .skip(index)
                .step_by(scores.len())
                .copied()
                .collect()
        };
        (0..scores.len()).map(column).collect()
    }

    /// Whether a `PreFilter` plugin has run. A plugin that is not enabled at this point counts as run.
    pub(crate) fn has_run_pre_filter(&self, name: &str, result: &PreFilterResult) -> bool {
        self.pre_filters
            .iter()
            .position(|plugin| plugin.name() == name)
            .is_none_or(|index| index < result.run)
    }

    /// The plugins that rejected the pod (`UnschedulablePlugins`).
    pub(crate) fn rejectors(&self, filtered: &Filtered) -> BTreeSet<String> {
        let pre_filter = &filtered.pre_filter;
        let mut rejectors = pre_filter.rejectors();
        if pre_filter.rejection.is_some() {
            return rejectors;
        }
        // Thousands of nodes have the same verdict.
        let distinct: HashSet<Verdict> = filtered.verdicts.iter().copied().collect();
        for verdict in distinct {
            match verdict {
                Verdict::Rejected(index, _) => {
                    rejectors.insert(self.filters[index].name().to_owned());
                }
                Verdict::ByExtender(_) => {
                    rejectors.insert(PluginName::Extender.as_str().to_owned());
                }
                Verdict::Excluded | Verdict::Feasible | Verdict::NotTried => {}
            }
        }
        rejectors
    }
}

impl Verdict {
    /// Cheaper than `==`, which would compare reasons. Thousands of nodes are asked for each pod.
    pub(crate) const fn is_feasible(&self) -> bool {
        matches!(self, Self::Feasible)
    }

    /// The filter that rejected the node, or `all` if it passed all of them. `None` if no filter has run.
    pub(crate) const fn last_filter(&self, all: usize) -> Option<usize> {
        match self {
            Self::Feasible => Some(all),
            Self::Rejected(index, _) => Some(*index),
            Self::Excluded | Self::NotTried | Self::ByExtender(_) => None,
        }
    }

    /// The rejection as a preemption takes it.
    fn rejection(self, filtered: &Filtered) -> Result<(), Rejection> {
        let code = match self {
            Self::Feasible => return Ok(()),
            Self::Rejected(_, rejection) => return Err(rejection),
            Self::ByExtender(index) => filtered.by_extenders.get(index).map(|(code, _)| *code),
            Self::Excluded | Self::NotTried => {
                let rejection = filtered.pre_filter.rejection.as_ref();
                rejection.map(|rejection| rejection.code)
            }
        };
        Err(match code {
            Some(Code::Unschedulable) => Rejection::unschedulable(""),
            _ => Rejection::unresolvable(""),
        })
    }
}

impl Filtered {
    /// Filter results for which no `PreFilter` plugin excluded a node.
    pub(crate) fn of_verdicts(framework: &Framework, verdicts: Vec<Verdict>) -> Self {
        Self {
            verdicts,
            feasible: Vec::new(),
            not_freed: Vec::new(),
            by_extenders: Vec::new(),
            pre_filter: PreFilterResult {
                run: framework.pre_filters.len(),
                ..PreFilterResult::default()
            },
            active_filters: Vec::new(),
        }
    }

    /// Whether the search for devices was interrupted on a node. The next attempt may find some there.
    pub(crate) fn has_unfinished_search(&self) -> bool {
        self.verdicts.iter().any(|verdict| {
            matches!(verdict, Verdict::Rejected(_, rejection) if is_unfinished(*rejection))
        })
    }

    /// The results of all nodes, for a preemption.
    pub fn rejections_by_node(&self) -> Vec<Result<(), Rejection>> {
        let mut rejections: Vec<Result<(), Rejection>> = self
            .verdicts
            .iter()
            .map(|verdict| verdict.rejection(self))
            .collect();
        for node in &self.not_freed {
            rejections[node.index()] = Err(Rejection::unresolvable(""));
        }
        rejections
    }

    /// The message of `FitError` (S5-051).
    pub(crate) fn fit_error(&self, cluster: &Cluster, pod: &Pod) -> String {
        let nodes = self.verdicts.len();
        if let Some(rejection) = &self.pre_filter.rejection {
            return format!("0/{nodes} nodes are available: {}.", rejection.reason);
        }
        // Many nodes have the same verdict, whose messages are then built once.
        let mut by_verdict: HashMap<Verdict, usize> = HashMap::new();
        for verdict in &self.verdicts {
            *by_verdict.entry(*verdict).or_default() += 1;
        }
        let mut by_reason: BTreeMap<String, usize> = BTreeMap::new();
        for (verdict, count) in by_verdict {
            for reason in self.reasons(cluster, pod, verdict) {
                *by_reason.entry(reason).or_default() += count;
            }
        }
        let mut reasons: Vec<String> = by_reason
            .iter()
            .map(|(reason, count)| format!("{count} {reason}"))
            .collect();
        // kube-scheduler sorts these texts with their counts: 10 comes before 2.
        reasons.sort();
        format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
    }

    /// Why a node is not feasible, as the messages that many nodes share.
    pub(crate) fn reasons(&self, cluster: &Cluster, pod: &Pod, verdict: Verdict) -> Vec<String> {
        match verdict {
            Verdict::Feasible | Verdict::NotTried => Vec::new(),
            Verdict::ByExtender(index) => self
                .by_extenders
                .get(index)
                .map(|(_, reason)| reason.clone())
                .filter(|reason| !reason.is_empty())
                .into_iter()
                .collect(),
            Verdict::Rejected(_, rejection) => {
                evictd_placement::filter::messages_in_order(cluster, pod, rejection.reason)
            }
            Verdict::Excluded => vec![match &self.pre_filter.rejection {
                Some(rejection) => rejection.reason.clone(),
                None => format!(
                    "node(s) didn't satisfy plugin(s) [{}]",
                    self.pre_filter.restricting_plugins(" ")
                ),
            }],
        }
    }

    /// Whether the removal of pods could make a node feasible.
    pub fn code(&self, verdict: Verdict) -> Option<Code> {
        let rejection = verdict.rejection(self).err()?;
        Some(rejection.code)
    }

    /// The plugin that rejected a node.
    pub(crate) fn plugin(&self, framework: &Framework, verdict: Verdict) -> String {
        match verdict {
            Verdict::Rejected(filter, _) => framework.filters[filter].name().to_owned(),
            Verdict::ByExtender(_) => PluginName::Extender.as_str().to_owned(),
            Verdict::Excluded => match &self.pre_filter.rejection {
                Some(rejection) => rejection.plugin.clone(),
                None => self.pre_filter.restricting_plugins(", "),
            },
            Verdict::Feasible | Verdict::NotTried => String::new(),
        }
    }

    /// The `PreFilter` plugin that rejected every node, and its reason.
    pub fn pre_filter_rejection(&self) -> Option<(&str, &str)> {
        let rejection = self.pre_filter.rejection.as_ref()?;
        Some((&rejection.plugin, &rejection.reason))
    }

    /// The filters that had something to check, by their indices in the profile.
    pub fn active_filters(&self) -> &[usize] {
        &self.active_filters
    }
}

impl Scores {
    /// The nodes with the highest total.
    pub fn top(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let highest = self.totals.iter().max();
        nodes
            .iter()
            .zip(&self.totals)
            .filter(|(_, total)| Some(*total) == highest)
            .map(|(id, _)| *id)
            .collect()
    }
}

/// Whether the search for devices was interrupted. The next attempt may find some.
pub(crate) fn is_unfinished(rejection: Rejection) -> bool {
    rejection.reason == Reason::Message(DEVICES_GO_ON)
}
