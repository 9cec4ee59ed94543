//! The `PreFilter`, Filter and Score points: which nodes are feasible for a pod, and how good each of them is.

use crate::config::Point;
use crate::framework::Framework;
use crate::parallelize::split;
use crate::plugins::PluginName;
use crate::recorder::{status, timed};
use evictd_placement::{
    Checks, Cluster, Code, DEVICES_GO_ON, Here, NodeId, Pod, PreFilter, Reason, Rejection, Score,
    Symbol,
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

/// The result of the `PreFilter` plugins (S5-043).
#[derive(Debug, Clone, Default)]
pub(crate) struct PreFilterResult {
    pub(crate) rejection: Option<PreFilterRejection>,
    allowed: Option<AllowedNodes>,
    /// How many plugins have run.
    run: usize,
}

/// A `PreFilter` plugin that rejected every node.
#[derive(Debug, Clone)]
pub(crate) struct PreFilterRejection {
    pub(crate) plugin: String,
    code: Code,
    reason: String,
}

/// The only nodes that the filters need to run on.
#[derive(Debug, Clone)]
struct AllowedNodes {
    names: BTreeSet<Symbol>,
    /// The plugins that restricted the nodes.
    plugins: Vec<String>,
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
        let pre_filter = self.pre_filter(cluster, pod);
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
        let (mut checks, active_filters) = self.compile_filters(cluster, pod);
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
        self.record(Point::Filter, true, took);
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

    /// Whether the `PreFilter` plugins leave every node to the filters.
    pub(crate) fn passes_pre_filter(&self, cluster: &Cluster, pod: &Pod) -> bool {
        let result = self.pre_filter(cluster, pod);
        result.rejection.is_none() && result.allowed.is_none()
    }

    /// Runs the `PreFilter` plugins.
    fn pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilterResult {
        let (result, took) = timed(&*self.recorder, || self.run_pre_filter(cluster, pod));
        self.record(Point::PreFilter, result.rejection.is_none(), took);
        result
    }

    fn run_pre_filter(&self, cluster: &Cluster, pod: &Pod) -> PreFilterResult {
        let mut result = PreFilterResult::default();
        let is_sampled = self.recorder.samples_plugins();
        for plugin in &self.pre_filters {
            let name = plugin.name();
            result.run += 1;
            let began = is_sampled.then(|| self.recorder.now());
            let answer = plugin.pre_filter(cluster, pod);
            if let Some(began) = began {
                let took = self.recorder.now().saturating_sub(began);
                let succeeds = !matches!(answer, PreFilter::Rejected(..));
                self.recorder
                    .on_plugin(name, Point::PreFilter, status(succeeds), took);
            }
            match answer {
                PreFilter::Pass => {}
                PreFilter::Rejected(code, reason) => {
                    result.rejection = Some(PreFilterRejection {
                        plugin: name.to_owned(),
                        code,
                        reason,
                    });
                    // As kube-scheduler: after a rejection that a preemption could resolve, the others still run.
                    if code == Code::UnschedulableAndUnresolvable {
                        break;
                    }
                }
                PreFilter::Nodes(names) => {
                    let names = BTreeSet::from_iter(names);
                    let allowed = result.allowed.get_or_insert_with(|| AllowedNodes {
                        names: names.clone(),
                        plugins: Vec::new(),
                    });
                    allowed.names.retain(|node| names.contains(node));
                    allowed.plugins.push(name.to_owned());
                    if allowed.names.is_empty() {
                        result.rejection = Some(PreFilterRejection {
                            plugin: name.to_owned(),
                            code: Code::UnschedulableAndUnresolvable,
                            reason: no_node_allowed(&allowed.plugins),
                        });
                        break;
                    }
                }
            }
        }
        result
    }

    /// The plugin that rejects a pod on a node, with its messages; `None` if the pod fits.
    pub(crate) fn rejection(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        id: NodeId,
    ) -> Option<(String, Vec<String>)> {
        let pre_filter = self.pre_filter(cluster, pod);
        if let Some(rejection) = pre_filter.rejection {
            return Some((rejection.plugin, vec![rejection.reason]));
        }
        if !pre_filter.allows(cluster.node(id).name) {
            return Some((pre_filter.restricting_plugins(", "), Vec::new()));
        }
        let (mut checks, indices) = self.compile_filters(cluster, pod);
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
        let began = self.recorder.now();
        for (plugin, weight) in &self.scores {
            match self.pre_score(plugin, cluster, pod, nodes) {
                Some(score) => compiled.push((plugin, *weight, score)),
                None => scores.skipped.push(plugin.name().to_owned()),
            }
        }
        let prepared = self.recorder.now();
        self.record(Point::PreScore, true, prepared.saturating_sub(began));
        let functions: Vec<&dyn Score> = compiled.iter().map(|(.., score)| &**score).collect();
        let columns = self.raw_scores(&functions, cluster, nodes);
        let names = compiled.iter().map(|(plugin, ..)| plugin.name());
        self.count_scores(names.clone(), nodes.len());
        self.sample_scores(names, &functions, cluster, nodes);
        for ((plugin, weight, score), raw) in compiled.iter().zip(columns) {
            let mut normalized = raw.clone();
            score.normalize(&mut normalized);
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
        self.record(Point::Score, true, took);
        Some(scores)
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

fn no_node_allowed(plugins: &[String]) -> String {
    match plugins {
        [plugin] => format!("node(s) didn't satisfy plugin {plugin}"),
        plugins => format!(
            "node(s) didn't satisfy plugin(s) [{}] simultaneously",
            plugins.join(" ")
        ),
    }
}

impl PreFilterResult {
    fn allows(&self, node: Symbol) -> bool {
        self.allowed
            .as_ref()
            .is_none_or(|allowed| allowed.names.contains(&node))
    }

    /// The plugins that rejected the pod before the filters ran. As in kube-scheduler, a plugin that named nodes counts even
    /// if it excluded none. Only a plugin that no preemption could help stands alone.
    fn rejectors(&self) -> BTreeSet<String> {
        let mut named = BTreeSet::new();
        if let Some(allowed) = &self.allowed {
            named.extend(allowed.plugins.iter().cloned());
            // No node is left, which no single plugin decided.
            if allowed.names.is_empty() {
                return named;
            }
        }
        if let Some(rejection) = &self.rejection {
            if rejection.code == Code::UnschedulableAndUnresolvable {
                named.clear();
            }
            named.insert(rejection.plugin.clone());
        }
        named
    }

    fn restricting_plugins(&self, separator: &str) -> String {
        self.allowed
            .as_ref()
            .map_or(String::new(), |allowed| allowed.plugins.join(separator))
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
