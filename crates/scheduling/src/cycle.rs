//! One attempt to place a pod: which nodes will do, which is best, and if none does, what could be done about it.

use crate::framework::{Framework, PostFilter};
use crate::parallelize::split;
use crate::plugins::PluginName;
use crate::pre_bind::ClaimRef;
use evictd_placement::{
    Checks, Cluster, Code, DEVICES_GO_ON, Here, NodeId, Pod, PreFilter, Reason, Rejection, Score,
    Symbol, unavailable_claim,
};
use evictd_preemption::{Budget, Extender, Options, Plan, PlanError, preempt};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What became of one node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It passed every filter.
    Feasible,
    /// The filter with this index among the profile's filters rejected it.
    Rejected(usize, Rejection),
    /// What was said before any node was looked at rules it out.
    Excluded,
    /// It was not looked at, for the nominated node will do.
    NotTried,
    /// An extender does not want it: [`Filtered::by_extenders`] says why.
    ByExtender(usize),
}

/// What was said before any node was looked at (S5-043).
#[derive(Debug, Clone, Default)]
struct Before {
    /// No node will do: who says so, whether pods that leave can help, and the reason.
    rejected: Option<(String, Code, String)>,
    /// The names of the only nodes that have to be looked at, and who says so.
    nodes: Option<(BTreeSet<Symbol>, Vec<String>)>,
    /// The plugins that were asked.
    asked: usize,
}

/// Which nodes will do for a pod.
#[derive(Debug)]
pub struct Filtered {
    /// By [`NodeId::index`].
    pub verdicts: Vec<Verdict>,
    /// The nodes that passed, in the order of the cluster's nodes.
    pub feasible: Vec<NodeId>,
    /// Nodes on which nobody is to go for the pod, because those who should end there do not.
    pub not_freed: Vec<NodeId>,
    /// What extenders say about nodes, and whether pods that leave could help there.
    pub by_extenders: Vec<(Code, String)>,
    before: Before,
    /// The compiled filters that were asked, as indices of the profile's.
    asked: Vec<usize>,
}

impl Filtered {
    /// Whether the next attempt may find nodes that this one had to leave.
    pub(crate) fn goes_on(&self) -> bool {
        let left = Reason::Message(DEVICES_GO_ON);
        let mut verdicts = self.verdicts.iter();
        verdicts.any(|own| matches!(own, Verdict::Rejected(_, why) if why.reason == left))
    }
}

/// The scores of one plugin, in the order of the nodes that passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PluginScores {
    /// The plugin.
    pub name: String,
    /// Its weight.
    pub weight: i64,
    /// In a unit of its own.
    pub raw: Vec<i64>,
    /// From 0 to 100.
    pub normalized: Vec<i64>,
}

/// How good each node is that passed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scores {
    /// By plugin, in the profile's order.
    pub plugins: Vec<PluginScores>,
    /// Plugins that left the choice to others.
    pub skipped: Vec<String>,
    /// The sum of all weighted scores, in the order of the nodes that passed.
    pub totals: Vec<i64>,
}

/// What a pod is told that fits nowhere.
#[derive(Debug)]
pub struct PostFilterResult {
    /// kube-scheduler's words about the nodes (S5-051).
    pub fit_error: String,
    /// The plugins that kept the pod away, by name (S5-052).
    pub plugins: BTreeSet<String>,
    /// The plan of a preemption, if one was tried.
    pub plan: Option<Plan>,
    /// A claim that should give its devices back.
    pub deallocates: Option<ClaimRef>,
    /// What stands in condition and event; `None` if a node is being freed.
    pub message: Option<String>,
}

impl Framework {
    /// Asks every plugin about every node. A pod whose nominated node will do is not tried elsewhere (S5-044).
    pub fn filter(&self, cluster: &Cluster, pod: &Pod) -> Filtered {
        let before = self.before(cluster, pod);
        let count = cluster.nodes().len();
        if before.rejected.is_some() {
            return Filtered {
                verdicts: vec![Verdict::Excluded; count],
                feasible: Vec::new(),
                not_freed: Vec::new(),
                by_extenders: Vec::new(),
                before,
                asked: Vec::new(),
            };
        }
        let (mut checks, asked) = self.checks(cluster, pod);
        let allowed = before.nodes.as_ref().map(|(names, _)| names);
        let look = |checks: &mut Checks<'_>, id: NodeId| {
            if allowed.is_some_and(|names| !names.contains(&cluster.node(id).name)) {
                return Verdict::Excluded;
            }
            match checks.verdict(id) {
                Ok(()) => Verdict::Feasible,
                Err((index, rejection)) => Verdict::Rejected(asked[index], rejection),
            }
        };
        let nominated = pod.identity.nominated;
        let nominated = nominated.and_then(|name| cluster.find_node(cluster.symbols().text(name)));
        let verdicts = match nominated {
            Some(id) if look(&mut checks, id) == Verdict::Feasible => {
                let mut verdicts = vec![Verdict::NotTried; count];
                verdicts[id.index()] = Verdict::Feasible;
                verdicts
            }
            _ => {
                let make = || self.checks(cluster, pod).0;
                split(
                    &*self.parallelizer,
                    count,
                    &mut checks,
                    &make,
                    &|checks, range| range.map(|index| look(checks, NodeId::of(index))).collect(),
                )
            }
        };
        let passed = cluster.node_ids().zip(&verdicts);
        let passed = passed.filter(|(_, verdict)| **verdict == Verdict::Feasible);
        let feasible = passed.map(|(id, _)| id).collect();
        Filtered {
            verdicts,
            feasible,
            not_freed: Vec::new(),
            by_extenders: Vec::new(),
            before,
            asked,
        }
    }

    /// The filters that have something to check for a pod, with their indices.
    pub(crate) fn checks<'c>(
        &self,
        cluster: &'c Cluster,
        pod: &'c Pod,
    ) -> (Checks<'c>, Vec<usize>) {
        let filters = self.filters.iter().enumerate();
        let compiled =
            filters.filter_map(|(index, plugin)| Some((index, plugin.filter(cluster, pod)?)));
        let (asked, filters) = compiled.unzip();
        (Checks::with(cluster, pod, filters), asked)
    }

    /// Whether there is nothing to say before any node is looked at.
    pub(crate) fn passes_before(&self, cluster: &Cluster, pod: &Pod) -> bool {
        let before = self.before(cluster, pod);
        before.rejected.is_none() && before.nodes.is_none()
    }

    /// Asks what can be said before any node is looked at.
    fn before(&self, cluster: &Cluster, pod: &Pod) -> Before {
        let mut before = Before::default();
        for plugin in &self.pre_filters {
            let name = plugin.name();
            before.asked += 1;
            match plugin.pre_filter(cluster, pod) {
                PreFilter::Pass => {}
                PreFilter::Rejected(code, reason) => {
                    before.rejected = Some((name.to_owned(), code, reason));
                    if code == Code::UnschedulableAndUnresolvable {
                        break;
                    }
                }
                PreFilter::Nodes(names) => {
                    let names = BTreeSet::from_iter(names);
                    let (left, by) = before
                        .nodes
                        .get_or_insert_with(|| (names.clone(), Vec::new()));
                    left.retain(|own| names.contains(own));
                    by.push(name.to_owned());
                    if left.is_empty() {
                        let reason = nobody_left(by);
                        let code = Code::UnschedulableAndUnresolvable;
                        before.rejected = Some((name.to_owned(), code, reason));
                        break;
                    }
                }
            }
        }
        before
    }

    /// What is in the way of a pod on a node that will not do, in figures and names where more can be said than in the
    /// rejection.
    pub fn obstacle(&self, cluster: &Cluster, pod: &Pod, node: NodeId) -> Option<String> {
        let (mut checks, _) = self.checks(cluster, pod);
        checks.on(node).obstacle()
    }

    /// Which plugin rejects a pod on a node, with its words; `None` if none does.
    pub(crate) fn rejection(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        id: NodeId,
    ) -> Option<(String, Vec<String>)> {
        let before = self.before(cluster, pod);
        if let Some((plugin, _, reason)) = before.rejected {
            return Some((plugin, vec![reason]));
        }
        let name = &cluster.node(id).name;
        if let Some((_, by)) = before.nodes.filter(|(names, _)| !names.contains(name)) {
            return Some((by.join(", "), Vec::new()));
        }
        let (mut checks, asked) = self.checks(cluster, pod);
        let (index, rejection) = checks.verdict(id).err()?;
        let plugin = self.filters[asked[index]].name().to_owned();
        Some((plugin, checks.messages(rejection)))
    }

    /// Scores the nodes that passed; `None` where there is nothing to choose (S5-054).
    pub fn score(&self, cluster: &Cluster, pod: &Pod, nodes: &[NodeId]) -> Option<Scores> {
        if nodes.len() < 2 {
            return None;
        }
        let mut scores = Scores {
            totals: vec![0; nodes.len()],
            ..Scores::default()
        };
        let mut compiled = Vec::new();
        for (plugin, weight) in &self.scores {
            match plugin.score(cluster, pod, nodes) {
                Some(score) => compiled.push((plugin, *weight, score)),
                None => scores.skipped.push(plugin.name().to_owned()),
            }
        }
        let asked: Vec<&dyn Score> = compiled.iter().map(|(.., score)| &**score).collect();
        let columns = self.raw(&asked, cluster, nodes);
        for ((plugin, weight, score), raw) in compiled.iter().zip(columns) {
            let mut normalized = raw.clone();
            score.normalize(&mut normalized);
            for (total, own) in scores.totals.iter_mut().zip(&normalized) {
                *total += own * weight;
            }
            scores.plugins.push(PluginScores {
                name: plugin.name().to_owned(),
                weight: *weight,
                raw,
                normalized,
            });
        }
        Some(scores)
    }

    /// What each of these plugins gives to each of these nodes. Node by node, so that each is fetched from memory once.
    pub(crate) fn raw(
        &self,
        scores: &[&dyn Score],
        cluster: &Cluster,
        nodes: &[NodeId],
    ) -> Vec<Vec<i64>> {
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
            let own = rows.iter().skip(index).step_by(scores.len());
            own.copied().collect()
        };
        (0..scores.len()).map(column).collect()
    }

    /// What is done for a pod that fits nowhere (S5-053), and what it is told.
    pub fn fail(
        &self,
        (cluster, pod): (&Cluster, &Pod),
        filtered: &Filtered,
        (budgets, options): (&[Budget], Options),
        extenders: &mut [&mut dyn Extender],
        waiting: &dyn Fn(&Pod) -> bool,
    ) -> Result<PostFilterResult, PlanError> {
        let fit_error = filtered.fit_error(cluster, pod);
        let (mut checks, _) = self.checks(cluster, pod);
        let mut said = Vec::new();
        let (mut plan, mut deallocates) = (None, None);
        for own in &self.post_filters {
            match own {
                PostFilter::DynamicResources if self.was_asked(own.as_str(), &filtered.before) => {
                    deallocates = self.unavailable_claim(cluster, pod, filtered);
                    said.push(said_of_claims(cluster, pod, filtered, deallocates.as_ref()));
                }
                // Its part of the cycle never began (S5-102).
                PostFilter::DynamicResources => {
                    said = vec!["not found".to_owned()];
                    break;
                }
                PostFilter::DefaultPreemption => {
                    let found = preempt(
                        &mut checks,
                        filtered.answers(),
                        budgets,
                        options,
                        extenders,
                        waiting,
                    )?;
                    let words = found.message(&checks);
                    said.extend(words.map(|words| format!("preemption: {words}")));
                    plan = Some(found);
                }
            }
        }
        let freed = plan.as_ref().is_some_and(|plan| plan.chosen.is_some());
        let message = if said.is_empty() {
            fit_error.clone()
        } else {
            format!("{fit_error} {}", said.join(", "))
        };
        Ok(PostFilterResult {
            plugins: self.rejectors(filtered),
            fit_error,
            plan,
            deallocates,
            message: (!freed).then_some(message),
        })
    }

    /// A claim whose devices are of no use where nothing but that is in the way.
    pub(crate) fn unavailable_claim(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
    ) -> Option<ClaimRef> {
        let by_devices = |verdict: &Verdict| match verdict {
            Verdict::Rejected(index, _) => self.filters[*index].name() == "DynamicResources",
            _ => false,
        };
        let nodes = cluster.node_ids().zip(&filtered.verdicts);
        let nodes = nodes.filter(|(_, verdict)| by_devices(verdict));
        let nodes: Vec<NodeId> = nodes.map(|(id, _)| id).collect();
        let claim = unavailable_claim(cluster, pod, &nodes)?;
        Some(ClaimRef::of(&claim.metadata))
    }

    /// Whether a plugin was asked before the nodes were; one that is not in the list needs not be.
    fn was_asked(&self, name: &str, before: &Before) -> bool {
        let index = self.pre_filters.iter().position(|own| own.name() == name);
        index.is_none_or(|index| index < before.asked)
    }

    /// The plugins that kept the pod away.
    pub(crate) fn rejectors(&self, filtered: &Filtered) -> BTreeSet<String> {
        let before = &filtered.before;
        if let Some((name, ..)) = &before.rejected {
            return BTreeSet::from([name.clone()]);
        }
        let excluded = filtered.verdicts.contains(&Verdict::Excluded);
        // Thousands of nodes say the same.
        let alike: HashSet<Verdict> = filtered.verdicts.iter().copied().collect();
        let by = before
            .nodes
            .iter()
            .filter(|_| excluded)
            .flat_map(|(_, by)| by.clone());
        let rejected = alike.into_iter().filter_map(|verdict| match verdict {
            Verdict::Rejected(index, _) => Some(self.filters[index].name().to_owned()),
            Verdict::ByExtender(_) => Some(PluginName::Extender.as_str().to_owned()),
            _ => None,
        });
        by.chain(rejected).collect()
    }
}

/// What is said of the claims of a pod that fits nowhere.
fn said_of_claims(
    cluster: &Cluster,
    pod: &Pod,
    filtered: &Filtered,
    deallocates: Option<&ClaimRef>,
) -> String {
    let ended = filtered.before.rejected.as_ref();
    let ended = ended.is_some_and(|(by, ..)| by == PostFilter::DynamicResources.as_str());
    let said = if ended || cluster.template(pod).device_claims.is_empty() {
        "no new claims to deallocate"
    } else if deallocates.is_some() {
        "deallocation of ResourceClaim completed"
    } else {
        "still not schedulable"
    };
    said.to_owned()
}

/// What is said where these plugins leave no node over.
fn nobody_left(by: &[String]) -> String {
    match by {
        [one] => format!("node(s) didn't satisfy plugin {one}"),
        all => format!(
            "node(s) didn't satisfy plugin(s) [{}] simultaneously",
            all.join(" ")
        ),
    }
}

impl Verdict {
    /// Whether the pod may be there. Thousands of nodes are asked that for each pod, so that it takes no comparison of reasons.
    pub(crate) const fn is_feasible(&self) -> bool {
        matches!(self, Self::Feasible)
    }

    /// The same for a preemption.
    fn answer(self, filtered: &Filtered) -> Result<(), Rejection> {
        match self {
            Self::Feasible => Ok(()),
            Self::Rejected(_, rejection) => Err(rejection),
            Self::ByExtender(index) => Err(match filtered.by_extenders.get(index) {
                Some((Code::Unschedulable, _)) => Rejection::unschedulable(""),
                _ => Rejection::unresolvable(""),
            }),
            Self::Excluded | Self::NotTried => {
                let code = filtered.before.rejected.as_ref().map(|(_, code, _)| *code);
                Err(match code {
                    Some(Code::Unschedulable) => Rejection::unschedulable(""),
                    _ => Rejection::unresolvable(""),
                })
            }
        }
    }
}

impl Filtered {
    /// Where nothing was said before the nodes were looked at.
    pub(crate) fn of_verdicts(framework: &Framework, verdicts: Vec<Verdict>) -> Self {
        Self {
            verdicts,
            feasible: Vec::new(),
            not_freed: Vec::new(),
            by_extenders: Vec::new(),
            before: Before {
                asked: framework.pre_filters.len(),
                ..Before::default()
            },
            asked: Vec::new(),
        }
    }

    /// What the nodes said, for a preemption.
    fn answers(&self) -> Vec<Result<(), Rejection>> {
        let answers = self.verdicts.iter().map(|own| own.answer(self));
        let mut answers: Vec<Result<(), Rejection>> = answers.collect();
        for node in &self.not_freed {
            answers[node.index()] = Err(Rejection::unresolvable(""));
        }
        answers
    }

    /// What the nodes said, in kube-scheduler's words (S5-051).
    pub(crate) fn fit_error(&self, cluster: &Cluster, pod: &Pod) -> String {
        let nodes = self.verdicts.len();
        if let Some((_, _, reason)) = &self.before.rejected {
            return format!("0/{nodes} nodes are available: {reason}.");
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        // Many nodes say the same: the words are found once.
        let mut alike: HashMap<Verdict, usize> = HashMap::new();
        for verdict in &self.verdicts {
            *alike.entry(*verdict).or_default() += 1;
        }
        for (verdict, count) in alike {
            for words in self.reasons(cluster, pod, verdict) {
                *counts.entry(words).or_default() += count;
            }
        }
        let counts = counts
            .iter()
            .map(|(words, count)| format!("{count} {words}"));
        let mut counts: Vec<String> = counts.collect();
        counts.sort();
        format!("0/{nodes} nodes are available: {}.", counts.join(", "))
    }

    /// Why a node will not do, in words.
    pub fn reasons(&self, cluster: &Cluster, pod: &Pod, verdict: Verdict) -> Vec<String> {
        match verdict {
            Verdict::Feasible | Verdict::NotTried => Vec::new(),
            Verdict::ByExtender(index) => {
                let said = self.by_extenders.get(index);
                let said = said.filter(|(_, words)| !words.is_empty());
                said.map(|(_, words)| words.clone()).into_iter().collect()
            }
            Verdict::Rejected(_, rejection) => {
                evictd_placement::filter::messages_in_order(cluster, pod, rejection.reason)
            }
            Verdict::Excluded => match (&self.before.rejected, &self.before.nodes) {
                (Some((_, _, reason)), _) => vec![reason.clone()],
                (None, nodes) => {
                    let by = nodes.as_ref().map_or(&[][..], |(_, by)| by);
                    vec![format!(
                        "node(s) didn't satisfy plugin(s) [{}]",
                        by.join(" ")
                    )]
                }
            },
        }
    }

    /// Whether pods that leave can help on a node that will not do.
    pub fn code(&self, verdict: Verdict) -> Option<Code> {
        verdict.answer(self).err().map(|rejection| rejection.code)
    }

    /// Who says that a node will not do.
    pub(crate) fn plugin(&self, framework: &Framework, verdict: Verdict) -> String {
        match (verdict, &self.before.rejected, &self.before.nodes) {
            (Verdict::Rejected(filter, _), ..) => framework.filters[filter].name().to_owned(),
            (Verdict::ByExtender(_), ..) => PluginName::Extender.as_str().to_owned(),
            (Verdict::Excluded, Some((plugin, ..)), _) => plugin.clone(),
            (Verdict::Excluded, None, Some((_, by))) => by.join(", "),
            _ => String::new(),
        }
    }

    /// The reason why no node was looked at at all, with the plugin that gave it.
    pub fn rejected_before(&self) -> Option<(&str, &str)> {
        let (plugin, _, reason) = self.before.rejected.as_ref()?;
        Some((plugin, reason))
    }

    /// The profile's filters that had something to check, by index.
    pub fn asked(&self) -> &[usize] {
        &self.asked
    }
}

impl Scores {
    /// The nodes with the highest total.
    pub fn top(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let highest = self.totals.iter().max();
        let totals = nodes.iter().zip(&self.totals);
        let top = totals.filter(|(_, total)| Some(*total) == highest);
        top.map(|(id, _)| *id).collect()
    }
}
