//! The fewest moves of running pods after which spread constraints hold again. Each move is tried on the cluster with all filters.

use crate::cycle::Filtered;
use crate::framework::Framework;
use evictd_placement::filter::SpreadCounts;
use evictd_placement::{Cluster, NodeId, Pod, Template};
use evictd_pod::wire;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap, HashSet};

/// How many pods are tried for each move.
const TRIED_PODS: usize = 64;
/// How many nodes are tried for each pod, one for each combination of domains.
const TRIED_NODES: usize = 4;

/// A running pod.
#[derive(Debug)]
pub struct RunningPod {
    /// The pod, with its node.
    pub pod: wire::Pod,
    /// Why it must stay there.
    pub stays: Option<String>,
}

/// The moves, and the spread before and after them.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// In their order. Each counts on the ones before it.
    pub moves: Vec<Move>,
    /// No plan has fewer moves.
    pub at_least: usize,
    /// The constraints that were violated.
    pub spread: Vec<SpreadState>,
    /// Pods that a constraint still wants elsewhere, with the reasons why they stay.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cannot_move: BTreeMap<String, String>,
}

/// A pod that is evicted and created again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// `namespace/name`.
    pub pod: String,
    /// Its node.
    pub from: String,
    /// The node for its successor, which passes every filter there.
    pub to: String,
    /// The node that the scheduler would choose instead, because its score is higher.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduler_chooses: Option<String>,
}

/// A constraint of some pods.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SpreadState {
    /// One of the pods, `namespace/name`.
    pub pod: String,
    /// The topology key.
    pub topology_key: String,
    /// The maximum skew.
    pub max_skew: i64,
    /// The pods in each domain.
    pub before: BTreeMap<String, i64>,
    /// The pods in each domain after the moves.
    pub after: BTreeMap<String, i64>,
    /// How many moves are still missing at least.
    pub missing: i64,
}

/// Finds the moves. `soft`: whether constraints with `ScheduleAnyway` are repaired, too. The cluster has the moves at the end.
pub fn rebalance(
    cluster: &mut Cluster,
    frameworks: &[Framework],
    running: Vec<RunningPod>,
    soft: bool,
) -> Rebalance {
    let mut planner = Planner {
        cluster,
        frameworks,
        pods: Vec::new(),
        groups: Vec::new(),
        stuck: BTreeMap::new(),
    };
    planner.group(running, soft);
    planner.run()
}

/// Pods with the same constraints.
struct Group {
    namespace: String,
    /// One of them, without its node. Soft constraints are hard in it if they are repaired.
    compiled: Pod,
    profile: usize,
    pods: usize,
    example: String,
}

struct GroupedPod {
    wire: wire::Pod,
    stays: Option<String>,
    group: usize,
    is_moved: bool,
}

/// A pod on trial on a node: the missing moves then, and whether the scheduler would choose another node.
type Rank = (i64, bool);

struct Planner<'p> {
    cluster: &'p mut Cluster,
    frameworks: &'p [Framework],
    pods: Vec<GroupedPod>,
    groups: Vec<Group>,
    /// Pods that fit on no other node, with the reasons.
    stuck: BTreeMap<String, String>,
}

/// The pod as its controller creates it again.
fn successor(pod: &wire::Pod) -> wire::Pod {
    let mut pod = pod.clone();
    pod.spec.node_name.clear();
    pod.status = wire::PodStatus::default().into();
    pod
}

/// How many pods must leave or enter domains at least.
fn missing(counts: &SpreadCounts) -> i64 {
    let pods = || counts.domains.values().copied();
    let over = |minimum: i64| -> i64 {
        let allowed = minimum.saturating_add(counts.max_skew);
        pods().map(|pods| (pods - allowed).max(0)).sum()
    };
    if counts.too_few_domains {
        return over(0);
    }
    let under = |minimum: i64| -> i64 { pods().map(|pods| (minimum - pods).max(0)).sum() };
    let most = pods().max().unwrap_or(0);
    (0..=most)
        .map(|minimum| over(minimum).max(under(minimum)))
        .min()
        .unwrap_or(0)
}

impl Planner<'_> {
    /// Groups the pods that have constraints.
    fn group(&mut self, running: Vec<RunningPod>, soft: bool) {
        let mut known: HashMap<Template, usize> = HashMap::new();
        for RunningPod { pod, stays } in running {
            let scheduler = pod.spec.scheduler_name_or_default();
            let mut profiles = self.frameworks.iter();
            let Some(profile) = profiles.position(|one| one.scheduler_name == scheduler) else {
                continue;
            };
            let mut wanted = successor(&pod);
            if soft {
                for constraint in &mut wanted.spec.topology_spread_constraints {
                    "DoNotSchedule".clone_into(&mut constraint.when_unsatisfiable);
                }
            }
            let Ok(compiled) = self.cluster.pod(wanted) else {
                continue;
            };
            let template = self.cluster.template(&compiled);
            // The selectors of default constraints come from the owner.
            let by_owner = template.spread.is_empty();
            let key = Template {
                namespace: template.namespace,
                owner: template.owner.filter(|_| by_owner),
                spread: template.spread.clone(),
                node_selector: template.node_selector.clone(),
                node_affinity: template.node_affinity.clone(),
                tolerations: template.tolerations.clone(),
                ..Template::default()
            };
            let group = if let Some(group) = known.get(&key) {
                self.cluster.release(compiled);
                *group
            } else {
                if counts(self.cluster, &self.frameworks[profile], &compiled).is_empty() {
                    self.cluster.release(compiled);
                    continue;
                }
                known.insert(key, self.groups.len());
                self.groups.push(Group {
                    namespace: pod.metadata.namespace_or_default().to_owned(),
                    compiled,
                    profile,
                    pods: 0,
                    example: pod.metadata.full_name(),
                });
                self.groups.len() - 1
            };
            self.groups[group].pods += 1;
            self.pods.push(GroupedPod {
                wire: pod,
                stays,
                group,
                is_moved: false,
            });
        }
    }

    fn counts(&self, group: usize) -> Vec<SpreadCounts> {
        let Group {
            compiled, profile, ..
        } = &self.groups[group];
        counts(self.cluster, &self.frameworks[*profile], compiled)
    }

    fn missing(&self, groups: &[usize]) -> i64 {
        let counts = groups.iter().flat_map(|group| self.counts(*group));
        counts.map(|counts| missing(&counts)).sum()
    }

    fn run(mut self) -> Rebalance {
        let before: Vec<_> = (0..self.groups.len())
            .map(|group| self.counts(group))
            .collect();
        let at_least = self.at_least(&before);
        let mut namespaces: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (index, group) in self.groups.iter().enumerate() {
            let groups = namespaces.entry(group.namespace.clone()).or_default();
            groups.push(index);
        }
        let mut moves = Vec::new();
        // A constraint selects pods of its own namespace only.
        for groups in namespaces.values() {
            while let Some(next) = self.next_move(groups) {
                moves.push(next);
            }
        }
        let mut answer = Rebalance {
            moves,
            at_least,
            ..Rebalance::default()
        };
        for (group, before) in before.into_iter().enumerate() {
            let both = before.into_iter().zip(self.counts(group));
            for (before, after) in both.filter(|(before, _)| missing(before) > 0) {
                let missing = missing(&after);
                if missing > 0 {
                    self.note_stuck(group, &after, &mut answer.cannot_move);
                }
                answer.spread.push(SpreadState {
                    pod: self.groups[group].example.clone(),
                    topology_key: before.topology_key,
                    max_skew: before.max_skew,
                    before: before.domains,
                    after: after.domains,
                    missing,
                });
            }
        }
        answer
    }

    /// A number of moves that no plan can undercut. Pods of groups that count no others are disjoint.
    fn at_least(&self, before: &[Vec<SpreadCounts>]) -> usize {
        let (mut disjoint, mut most) = (0, 0);
        for (group, counts) in self.groups.iter().zip(before) {
            let needed = counts.iter().map(missing).max().unwrap_or(0);
            let size = i64::try_from(group.pods).unwrap_or(i64::MAX);
            let counts_itself = |one: &SpreadCounts| one.domains.values().sum::<i64>() <= size;
            if counts.iter().all(counts_itself) {
                disjoint += needed;
            }
            most = most.max(needed);
        }
        usize::try_from(disjoint.max(most)).unwrap_or(0)
    }

    /// The move that brings the constraints of a namespace nearest, carried out.
    fn next_move(&mut self, groups: &[usize]) -> Option<Move> {
        let now = self.missing(groups);
        if now == 0 {
            return None;
        }
        let mut best: Option<(Rank, usize, NodeId, NodeId)> = None;
        for index in self.candidates(groups) {
            let possible = self.counts(self.pods[index].group);
            let possible = possible.iter().filter(|one| missing(one) > 0).count();
            let enough = now - i64::try_from(possible).unwrap_or(0);
            for (rank, node, chosen) in self.trials(index, groups) {
                if rank.0 < now && best.as_ref().is_none_or(|(best, ..)| rank < *best) {
                    best = Some((rank, index, node, chosen));
                }
            }
            if best
                .as_ref()
                .is_some_and(|(rank, ..)| *rank <= (enough, false))
            {
                break;
            }
        }
        let (_, index, node, chosen) = best?;
        let name = |id| self.cluster.node_name(id).to_owned();
        let (to, chosen) = (name(node), name(chosen));
        let moved = &mut self.pods[index];
        moved.is_moved = true;
        self.cluster.remove_pod(&moved.wire.metadata);
        let from = std::mem::replace(&mut moved.wire.spec.node_name, to.clone());
        // It was compiled before with another node only.
        let _ = self.cluster.add_pod(moved.wire.clone());
        Some(Move {
            pod: moved.wire.metadata.full_name(),
            from,
            scheduler_chooses: (chosen != to).then_some(chosen),
            to,
        })
    }

    /// The pods whose move may help, from the fullest domains first, the least important ones first.
    fn candidates(&self, groups: &[usize]) -> Vec<usize> {
        let counts: HashMap<usize, Vec<SpreadCounts>> = groups
            .iter()
            .map(|group| (*group, self.counts(*group)))
            .filter(|(_, counts)| counts.iter().any(|one| missing(one) > 0))
            .collect();
        let movable = self.pods.iter().enumerate().filter_map(|(index, pod)| {
            let counts = counts.get(&pod.group)?;
            if pod.stays.is_some() || pod.is_moved {
                return None;
            }
            let id = self.cluster.find_node(&pod.wire.spec.node_name)?;
            let crowd = crowd(self.cluster, id, counts);
            let priority = pod.wire.spec.priority.unwrap_or(0);
            let name = pod.wire.metadata.full_name();
            (crowd > 0).then_some((Reverse(crowd), priority, name, (pod.group, id), index))
        });
        let mut movable: Vec<_> = movable.collect();
        movable.sort();
        // Of equal pods on one node the first is enough.
        let mut seen = HashSet::new();
        movable.retain(|(.., equal, _)| seen.insert(*equal));
        let movable = movable.into_iter().take(TRIED_PODS);
        movable.map(|(.., index)| index).collect()
    }

    /// Tries a pod on other nodes, and puts it back.
    fn trials(&mut self, index: usize, groups: &[usize]) -> Vec<(Rank, NodeId, NodeId)> {
        let GroupedPod { wire, group, .. } = &self.pods[index];
        let (wire, framework) = (wire.clone(), &self.frameworks[self.groups[*group].profile]);
        let counts = self.counts(*group);
        self.cluster.remove_pod(&wire.metadata);
        let mut trials = Vec::new();
        if let Ok(pod) = self.cluster.pod(successor(&wire)) {
            let filtered = framework.filter(self.cluster, &pod);
            let targets = targets(self.cluster, framework, &pod, &filtered, &counts);
            if targets.is_empty() {
                let reason = filtered.fit_error(self.cluster, &pod);
                self.stuck.insert(wire.metadata.full_name(), reason);
            }
            self.cluster.release(pod);
            for (node, chosen) in targets {
                if let Ok(pod) = self.cluster.pod(successor(&wire)) {
                    self.cluster.assume(pod, node);
                    let rank = (self.missing(groups), node != chosen);
                    self.cluster.remove_pod(&wire.metadata);
                    trials.push((rank, node, chosen));
                }
            }
        }
        // It was there before.
        let _ = self.cluster.add_pod(wire);
        trials
    }

    /// Notes why pods of a group stay in domains that are too full.
    fn note_stuck(
        &self,
        group: usize,
        counts: &SpreadCounts,
        stuck: &mut BTreeMap<String, String>,
    ) {
        for pod in self.pods.iter().filter(|pod| pod.group == group) {
            let id = self.cluster.find_node(&pod.wire.spec.node_name);
            let over = id.map_or(0, |id| {
                crowd(self.cluster, id, std::slice::from_ref(counts))
            });
            if over <= counts.max_skew {
                continue;
            }
            let name = pod.wire.metadata.full_name();
            let reason = match (&pod.stays, self.stuck.get(&name)) {
                (Some(reason), _) => reason.clone(),
                (None, Some(message)) => format!("it fits on no other node: {message}"),
                (None, None) => "no move of it brings the constraint nearer".to_owned(),
            };
            stuck.insert(name, reason);
        }
    }
}

fn counts(cluster: &Cluster, framework: &Framework, pod: &Pod) -> Vec<SpreadCounts> {
    let mut filters = framework.filters.iter();
    let spread = filters.find(|plugin| plugin.name() == "PodTopologySpread");
    let filter = spread.and_then(|plugin| plugin.filter(cluster, pod));
    filter.map_or_else(Vec::new, |filter| filter.spread(cluster))
}

/// The value of a label of a node.
fn label<'c>(cluster: &'c Cluster, id: NodeId, key: &str) -> Option<&'c str> {
    let symbols = cluster.symbols();
    let mut labels = cluster.node(id).labels.iter();
    let (_, value) = labels.find(|(known, _)| symbols.text(*known) == key)?;
    Some(symbols.text(value))
}

/// By how many pods the domain of a node exceeds the emptiest one.
fn crowd(cluster: &Cluster, id: NodeId, counts: &[SpreadCounts]) -> i64 {
    let over = counts.iter().filter_map(|one| {
        let domain = label(cluster, id, &one.topology_key)?;
        let least = one.domains.values().min().copied().unwrap_or(0);
        let least = if one.too_few_domains { 0 } else { least };
        Some(one.domains.get(domain)? - least)
    });
    over.max().unwrap_or(0)
}

/// Feasible nodes of the emptiest domains, the best node of each, and the node that the scheduler would choose.
fn targets(
    cluster: &Cluster,
    framework: &Framework,
    pod: &Pod,
    filtered: &Filtered,
    counts: &[SpreadCounts],
) -> Vec<(NodeId, NodeId)> {
    let feasible = &filtered.feasible;
    let totals = framework.score(cluster, pod, feasible);
    let totals = totals.map_or_else(|| vec![0; feasible.len()], |scores| scores.totals);
    let mut nodes: Vec<_> = feasible
        .iter()
        .zip(totals)
        .map(|(id, total)| {
            let domains = counts
                .iter()
                .map(|one| label(cluster, *id, &one.topology_key));
            let domains: Vec<Option<&str>> = domains.collect();
            let pods = counts.iter().zip(&domains).map(|(one, domain)| {
                let pods = domain.and_then(|domain| one.domains.get(domain));
                pods.copied().unwrap_or(0)
            });
            let pods: i64 = pods.sum();
            (pods, Reverse(total), cluster.node_name(*id), *id, domains)
        })
        .collect();
    let best = nodes
        .iter()
        .min_by_key(|(_, total, name, ..)| (*total, *name));
    let Some(chosen) = best.map(|(.., id, _)| *id) else {
        return Vec::new();
    };
    nodes.sort_by(|one, other| (one.0, one.1, one.2).cmp(&(other.0, other.1, other.2)));
    let mut seen = HashSet::new();
    nodes.retain(|(.., domains)| seen.insert(domains.clone()));
    let others = nodes.into_iter().map(|(.., id, _)| id);
    let others = others.filter(|id| *id != chosen).take(TRIED_NODES);
    std::iter::once(chosen)
        .chain(others)
        .map(|id| (id, chosen))
        .collect()
}
