//! Preemption for a whole gang (S4-035 to S4-038): all pods of lower priority are removed, the gang is placed, and then as many
//! pods as possible are put back (reprieved).

use super::freed_devices::FreedDevices;
use super::{GroupedPods, Member, TreeTrial, Trial};
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{Cluster, NodeId, Pod, Statement, estimated_cost, has_claims};
use evictd_preemption::{Budget, BudgetPolicy, breaking, within_budgets};
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The steps to take a pod off its node.
const STEPS_OF_POD: usize = 512;

/// The victims, and the nodes that are nominated for the members.
#[derive(Debug, Default)]
pub(crate) struct Preemption {
    /// Members by index, with their nominated nodes.
    pub(crate) nominations: Vec<(usize, NodeId)>,
    pub(crate) victims: Vec<Victim>,
    /// Atomic groups that are evicted, by index.
    pub(crate) groups: Vec<usize>,
    /// How many victims there are if an atomic group counts once.
    pub(crate) disruptions: usize,
}

#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) node: NodeId,
    /// `namespace/name`.
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) terminating: bool,
}

/// The gang for which pods may be evicted.
pub(crate) struct Preemptor<'p> {
    /// Of the group (S4-036).
    pub(crate) priority: i32,
    /// It must not preempt (S7-061).
    pub(crate) never: bool,
    pub(crate) budgets: &'p [Budget],
    pub(crate) policy: BudgetPolicy,
    pub(crate) grouped: &'p GroupedPods,
    /// Nodes with stuck victims.
    pub(crate) not_freed: &'p [NodeId],
}

/// Why nothing is preempted for a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoPreemption {
    Never,
    /// Victims on its nominated nodes are still terminating.
    Ongoing,
    NoVictims,
    /// It must not break a budget, and does not fit with what else may be evicted.
    Budgets,
    /// The group does not fit without all possible victims either, for this reason.
    DoesNotFit(String),
}

impl NoPreemption {
    /// kube-scheduler's message (S7-061, S7-062, S7-064, S7-067).
    pub(crate) fn message(&self) -> &str {
        match self {
            Self::Never => "not eligible due to preemptionPolicy=Never.",
            Self::Ongoing => "ongoing preemption on nominated nodes",
            Self::NoVictims => "No preemption victims found for incoming preemptor",
            Self::Budgets => "a PodDisruptionBudget would have to be broken",
            Self::DoesNotFit(message) => message,
        }
    }

    /// kube-scheduler's status, which metrics have as `result` (S7-054).
    pub(crate) const fn status(&self) -> &'static str {
        match self {
            Self::Never | Self::Budgets | Self::DoesNotFit(_) => "Unschedulable",
            Self::Ongoing => "Success",
            Self::NoVictims => "UnschedulableAndUnresolvable",
        }
    }

    /// Whether victims were looked for, so that nominations for earlier ones are cleared.
    pub(crate) const fn was_evaluated(&self) -> bool {
        matches!(self, Self::NoVictims | Self::Budgets | Self::DoesNotFit(_))
    }
}

/// Pods that are evicted together: one pod, or all pods of an atomic group.
#[derive(Debug, Default, Clone)]
struct Unit {
    /// Each with its node and its index there.
    pods: Vec<(NodeId, usize)>,
    /// Of the pods, in their order.
    uids: Vec<Arc<str>>,
    priority: i32,
    start: i64,
    /// Whether it is a pod of a group, or all pods of an atomic one.
    is_group: bool,
    /// Index of the atomic group.
    group: Option<usize>,
    /// Whether a pod of it is on a node with stuck victims.
    is_stuck: bool,
    violates_budget: bool,
    /// The indices of its removals in the statement.
    removals: Vec<usize>,
}

/// A pod to remove: its node, its index there, and the index of its unit.
struct Removal {
    node: NodeId,
    index: usize,
    unit: usize,
}

/// Finds the victims. Leaves the cluster as it was.
pub(crate) fn preempt(
    trial: &mut Trial<'_>,
    tree: &mut TreeTrial<'_>,
    members: &mut [Member],
    preemptor: &Preemptor<'_>,
) -> Result<Preemption, NoPreemption> {
    if preemptor.never {
        return Err(NoPreemption::Never);
    }
    if is_being_freed(trial, members, preemptor) {
        return Err(NoPreemption::Ongoing);
    }
    let all = units(trial, preemptor);
    let count = all.len();
    let mut groupings = match preemptor.policy {
        BudgetPolicy::Prefer => vec![all],
        BudgetPolicy::NeverViolate => sparing(trial.cluster, preemptor.budgets, &all),
    };
    let mut why_not = NoPreemption::NoVictims;
    for units in groupings.iter_mut().filter(|units| !units.is_empty()) {
        match attempt((trial, tree), members, units, FreedDevices::default()) {
            Ok(found) => return Ok(found),
            Err(reason) => why_not = reason,
        }
    }
    if may_free_devices(trial, members) {
        for units in &mut groupings {
            let freed = FreedDevices::new(trial.cluster, members);
            match attempt((trial, tree), members, units, freed) {
                // The devices of pods that have ended are enough, and are about to become free.
                Ok(found) if found.victims.is_empty() => return Err(NoPreemption::Ongoing),
                Ok(found) => return Ok(found),
                Err(_) => {}
            }
        }
    }
    let are_spared = groupings.iter().any(|units| units.len() < count);
    Err(if are_spared {
        NoPreemption::Budgets
    } else {
        why_not
    })
}

/// The units that may be evicted together without breaking a budget. The least important use the budgets first, so that they
/// are evicted first. If those free too little, the most important use them first.
fn sparing(cluster: &Cluster, budgets: &[Budget], units: &[Unit]) -> Vec<Vec<Unit>> {
    let pods = |unit: &Unit| {
        let pods = unit.pods.iter();
        let pods = pods.map(|(id, index)| -> &Pod { &cluster.node(*id).pods[*index] });
        pods.collect::<Vec<_>>().into_iter()
    };
    let mut unimportant = within_budgets(cluster, budgets, units.iter().rev().map(pods));
    unimportant.reverse();
    let important = within_budgets(cluster, budgets, units.iter().map(pods));
    let is_alike = unimportant == important;
    let of = |allowed: Vec<bool>| {
        let allowed = units.iter().zip(allowed).filter(|(_, allowed)| *allowed);
        let harmless = |(unit, _): (&Unit, bool)| Unit {
            violates_budget: false,
            ..unit.clone()
        };
        allowed.map(harmless).collect()
    };
    let first = of(unimportant);
    if is_alike {
        return vec![first];
    }
    vec![first, of(important)]
}

/// Whether devices of other pods may help, and the profile allows it. There must be a decision about every member.
fn may_free_devices(trial: &Trial<'_>, members: &[Member]) -> bool {
    let has_claims = |member: &Member| {
        let pod = member.pod.as_ref();
        pod.is_some_and(|pod| has_claims(trial.cluster, pod))
    };
    let mut profiles = members.iter().map(|member| member.profile);
    profiles.all(|profile| trial.profiles[profile].frees_devices)
        && members.iter().any(has_claims)
        && members.iter().all(|member| member.error().is_none())
        && !members.iter().any(Member::has_request)
        && !trial.cluster.interrupt().is_raised()
}

/// Looks for victims among the units. `freed`: whether they give their devices back. Leaves the cluster as it was.
fn attempt(
    (trial, tree): (&mut Trial<'_>, &mut TreeTrial<'_>),
    members: &mut [Member],
    units: &mut [Unit],
    mut freed: FreedDevices,
) -> Result<Preemption, NoPreemption> {
    let mut statement = Statement::default();
    for unit in &mut *units {
        unit.removals.clear();
    }
    let changes = (&mut statement, &mut freed);
    let is_found = search((trial, tree), members, units, changes);
    let found = is_found.then(|| gather(trial, members, &statement, units));
    trial.take_back(&mut statement, members);
    statement.undo(trial.cluster);
    freed.restore(trial.cluster);
    found.ok_or_else(|| {
        let message = tree.message(0).map(str::to_owned);
        message.map_or(NoPreemption::NoVictims, NoPreemption::DoesNotFit)
    })
}

/// Whether pods of lower priority terminate already on a node that is nominated for a member. The priority of a group counts
/// for its pods (S7-063).
fn is_being_freed(trial: &Trial<'_>, members: &[Member], preemptor: &Preemptor<'_>) -> bool {
    let cluster = &*trial.cluster;
    members
        .iter()
        .filter_map(|member| member.nominated.as_ref())
        .filter_map(|name| cluster.find_node(name))
        .flat_map(|id| &cluster.node(id).pods)
        .filter(|pod| pod.terminating && pod.preempted)
        .any(|pod| {
            let grouped = preemptor.grouped.pods.get(&*cluster.pod_key(pod));
            grouped.map_or(pod.priority, |pod| pod.priority) < preemptor.priority
        })
}

/// All possible victims, the most important first (S4-019, S7-065, S7-066).
fn units(trial: &Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Unit> {
    let cluster = &*trial.cluster;
    let mut units = Vec::new();
    let mut groups: HashMap<usize, Unit> = HashMap::new();
    for id in cluster.node_ids() {
        let is_stuck = preemptor.not_freed.contains(&id);
        for (index, pod) in cluster.node(id).pods.iter().enumerate() {
            let grouped = preemptor.grouped.pods.get(&*cluster.pod_key(pod));
            let atomic = grouped.and_then(|pod| pod.atomic);
            let priority = grouped.map_or(pod.priority, |pod| pod.priority);
            if priority >= preemptor.priority {
                continue;
            }
            let unit = Unit {
                priority,
                start: pod.start,
                is_group: grouped.is_some(),
                group: atomic,
                ..Unit::default()
            };
            if let Some(group) = atomic {
                let unit = groups.entry(group).or_insert(unit);
                // The whole group leaves or no pod of it.
                unit.is_stuck |= is_stuck;
                unit.start = unit.start.min(pod.start);
                unit.pods.push((id, index));
                unit.uids.push(Arc::clone(&pod.identity.uid));
            } else if !is_stuck {
                let pods = vec![(id, index)];
                let uids = vec![Arc::clone(&pod.identity.uid)];
                units.push(Unit { pods, uids, ..unit });
            }
        }
    }
    units.extend(groups.into_values().filter(|unit| !unit.is_stuck));
    units.sort_by_key(|unit| {
        // A single pod of a group counts as a group of one.
        let size = if unit.is_group { unit.pods.len() } else { 0 };
        (
            Reverse(unit.priority),
            Reverse(size),
            unit.start,
            unit.pods.first().copied(),
        )
    });
    // One call for all pods, because they use up the same budgets.
    let pods = units
        .iter()
        .flat_map(|unit| &unit.pods)
        .map(|(id, index)| -> &Pod { &cluster.node(*id).pods[*index] });
    let mut violations = breaking(cluster, preemptor.budgets, pods).into_iter();
    for unit in &mut units {
        // Every pod must be consumed, so this cannot stop at the first violation.
        let of_unit = violations.by_ref().take(unit.pods.len());
        unit.violates_budget = of_unit.filter(|violates| *violates).count() > 0;
    }
    units
}

/// Places the members without any of the units, and puts back the units that need not be evicted. Returns whether the members
/// fit.
fn search(
    (trial, tree): (&mut Trial<'_>, &mut TreeTrial<'_>),
    members: &mut [Member],
    units: &mut [Unit],
    (statement, freed): (&mut Statement, &mut FreedDevices),
) -> bool {
    remove_all(trial, (&mut *statement, &mut *freed), units);
    let pods = units.iter().map(|unit| unit.pods.len()).sum();
    charge_pods(trial, pods);
    trial.algorithm.take_evaluated();
    let is_placed = tree.run(trial, statement, members);
    let pod = members.iter().find_map(|member| member.pod.as_ref());
    pod.inspect(|pod| charge_evaluations(trial.cluster, trial.algorithm, pod));
    if !is_placed || members.iter().any(Member::has_request) {
        return false;
    }
    // Nodes that no member needs get all their pods back at once.
    let mut used = vec![false; trial.cluster.nodes().len()];
    for node in members.iter().filter_map(Member::node) {
        used[node.index()] = true;
    }
    let is_unused: Vec<bool> = units
        .iter()
        .map(|unit| {
            let pools = freed.pools(trial.cluster, &unit.uids);
            unit.pods.iter().all(|(id, _)| !used[id.index()])
                && !members.iter().any(|member| member.uses_pool(&pools))
        })
        .collect();
    for (unit, _) in units.iter().zip(&is_unused).filter(|(_, unused)| **unused) {
        put_back(trial, (&mut *statement, &mut *freed), unit);
    }
    // As for a single pod: the pods whose eviction violates a budget are put back first.
    for violates_budget in [true, false] {
        for (unit, is_unused) in units.iter().zip(&is_unused) {
            // The caller discards the result of an interrupted attempt.
            if trial.cluster.interrupt().is_raised() {
                return false;
            }
            if unit.violates_budget == violates_budget && !is_unused {
                let changes = (&mut *statement, &mut *freed);
                reprieve((trial, tree), members, unit, changes);
            }
        }
    }
    still_fit(trial, members, statement)
}

/// Counts pods that are taken off their nodes or put back.
fn charge_pods(trial: &Trial<'_>, pods: usize) {
    let steps = pods.saturating_mul(STEPS_OF_POD);
    trial.cluster.interrupt().charge_steps(steps);
}

/// Counts the nodes that were evaluated for a member. An attempt has paid for each member once, and not for those that are
/// placed again.
fn charge_evaluations(cluster: &Cluster, algorithm: &mut SchedulingAlgorithm, pod: &Pod) {
    let (evaluated, nodes) = (algorithm.take_evaluated(), cluster.nodes().len().max(1));
    let [evaluated, nodes] = [evaluated, nodes].map(|count| u64::try_from(count).unwrap_or(1));
    let units = estimated_cost(cluster, pod).saturating_mul(evaluated) / nodes;
    cluster.interrupt().charge_work(units);
}

fn remove_all(
    trial: &mut Trial<'_>,
    (statement, freed): (&mut Statement, &mut FreedDevices),
    units: &mut [Unit],
) {
    for uid in units.iter().flat_map(|unit| &unit.uids) {
        freed.change(trial.cluster, uid, true);
    }
    let mut removals = Vec::new();
    for (unit, of_unit) in units.iter().enumerate() {
        for (node, index) in &of_unit.pods {
            removals.push(Removal {
                node: *node,
                index: *index,
                unit,
            });
        }
    }
    // From the end of each node's list, because a removal shifts the indices after it.
    removals.sort_unstable_by_key(|removal| (removal.node, Reverse(removal.index)));
    for removal in removals {
        let operation = statement.remove(trial.cluster, removal.node, removal.index);
        units[removal.unit].removals.push(operation);
    }
}

fn put_back(
    trial: &mut Trial<'_>,
    (statement, freed): (&mut Statement, &mut FreedDevices),
    unit: &Unit,
) {
    for removal in &unit.removals {
        statement.put_back(trial.cluster, *removal);
    }
    for uid in &unit.uids {
        freed.change(trial.cluster, uid, false);
    }
}

/// Puts a unit back if the members on its nodes, and those with devices of its pools, fit elsewhere or beside it.
fn reprieve(
    (trial, tree): (&mut Trial<'_>, &TreeTrial<'_>),
    members: &mut [Member],
    unit: &Unit,
    (statement, freed): (&mut Statement, &mut FreedDevices),
) {
    let displaced = displaced(members, unit, &freed.pools(trial.cluster, &unit.uids));
    for displaced in &displaced {
        members[displaced.member].take_back(trial.cluster, statement);
    }
    put_back(trial, (&mut *statement, &mut *freed), unit);
    charge_pods(trial, unit.pods.len() + displaced.len());
    let all_fit = displaced.iter().all(|displaced| {
        let member = &mut members[displaced.member];
        let region = tree.region(member);
        let fits = trial.place_one(statement, member, &region);
        let pod = member.pod.as_ref();
        pod.inspect(|pod| charge_evaluations(trial.cluster, trial.algorithm, pod));
        fits
    });
    if all_fit {
        return;
    }
    for removal in &unit.removals {
        statement.remove_again(trial.cluster, *removal);
    }
    for uid in &unit.uids {
        freed.change(trial.cluster, uid, true);
    }
    // Exactly as before, because the order of the members decides where they fit.
    for displaced in displaced {
        let member = &mut members[displaced.member];
        member.take_back(trial.cluster, statement);
        member.pre_bind = displaced.pre_bind;
        if let Some(node) = displaced.node {
            member.place(trial.cluster, statement, node);
        }
    }
}

/// The members on the nodes of a unit, and those with devices in one of these pools.
fn displaced(
    members: &[Member],
    unit: &Unit,
    pools: &BTreeSet<(String, String)>,
) -> Vec<Displaced> {
    let shares_node = |member: &Member| {
        let node = member.node();
        unit.pods.iter().any(|(id, _)| Some(*id) == node)
    };
    members
        .iter()
        .enumerate()
        .filter(|(_, member)| shares_node(member) || member.uses_pool(pools))
        .map(|(index, member)| Displaced {
            member: index,
            node: member.node(),
            pre_bind: member.pre_bind.clone(),
        })
        .collect()
}

/// A member that is taken off its node for a unit.
struct Displaced {
    /// Index of the member.
    member: usize,
    node: Option<NodeId>,
    pre_bind: PreBindPlan,
}

/// Whether every member still fits beside the pods that were put back after it. Affinity and topology spread reach beyond one
/// node.
fn still_fit(trial: &mut Trial<'_>, members: &mut [Member], statement: &mut Statement) -> bool {
    members.iter_mut().all(|member| {
        let Some(node) = member.node() else {
            return true;
        };
        member.take_back(trial.cluster, statement);
        let profile = &trial.profiles[member.profile];
        let fits = member.pod.as_ref().is_some_and(|pod| {
            let (mut checks, _) = profile.compile_filters(trial.cluster, pod);
            checks.verdict(node).is_ok()
        });
        member.place(trial.cluster, statement, node);
        fits
    })
}

fn gather(
    trial: &Trial<'_>,
    members: &[Member],
    statement: &Statement,
    units: &[Unit],
) -> Preemption {
    let is_evicted = |removal: &usize| statement.removed(*removal);
    let nominations = members
        .iter()
        .enumerate()
        .filter_map(|(index, member)| Some((index, member.node()?)));
    let victims = units
        .iter()
        .flat_map(|unit| &unit.removals)
        .filter_map(is_evicted)
        .map(|(node, pod)| Victim {
            node,
            name: trial.cluster.full_name(pod),
            uid: pod.uid().to_owned(),
            terminating: pod.terminating,
        });
    let evicted = units.iter().filter(|unit| {
        let mut removals = unit.removals.iter();
        removals.any(|removal| is_evicted(removal).is_some())
    });
    let disruptions = evicted.clone().count();
    let groups = evicted.filter_map(|unit| unit.group);
    Preemption {
        disruptions,
        nominations: nominations.collect(),
        victims: victims.collect(),
        groups: groups.collect(),
    }
}
