//! Who has to go so that a whole gang fits (S4-035 to S4-038): all pods of lower priority are taken off, the gang is placed,
//! and then as many as possible are put back.

use super::{Member, Together, Trial};
use crate::pre_bind::PreBindPlan;
use evictd_placement::{Domain, NodeId, Pod, Statement};
use evictd_preemption::{Budget, Ineligible, breaking};
use hashbrown::HashMap;
use std::cmp::Reverse;

/// Who has to go, and where the members go then.
#[derive(Debug, Default)]
pub(crate) struct Preemption {
    /// Members, by index, with the nodes that are being freed for them.
    pub(crate) nominations: Vec<(usize, NodeId)>,
    pub(crate) victims: Vec<Victim>,
    /// Groups of which everybody goes, by number.
    pub(crate) groups: Vec<usize>,
}

/// A pod that has to go.
#[derive(Debug)]
pub(crate) struct Victim {
    pub(crate) node: NodeId,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) terminating: bool,
}

/// For whom pods may go.
pub(crate) struct Preemptor<'p> {
    /// Of the group (S4-036).
    pub(crate) priority: i32,
    /// The group or one of its pods never takes another's place (S4-037).
    pub(crate) never: bool,
    pub(crate) domains: &'p [Domain<'p>],
    pub(crate) budgets: &'p [Budget],
    pub(crate) together: &'p Together,
    /// Nodes on which those who should end do not.
    pub(crate) not_freed: &'p [NodeId],
}

/// Pods that stay or go together: one pod, or all of a group.
#[derive(Debug, Default)]
struct Unit {
    /// Each with its node and its index there.
    pods: Vec<(NodeId, usize)>,
    priority: i32,
    start: i64,
    /// The number of the group, if it is one.
    group: Option<usize>,
    /// Its end would break a budget.
    breaks: bool,
    /// Its numbers in the statement.
    removed: Vec<usize>,
}

/// Finds out who has to go; `None` if nobody's end would help. Everything is as it was afterwards.
pub(crate) fn preempt(
    trial: &mut Trial<'_>,
    members: &mut [Member],
    preemptor: &Preemptor<'_>,
) -> Result<Option<Preemption>, Ineligible> {
    if preemptor.never {
        return Err(Ineligible::Never);
    }
    if is_being_freed(trial, members, preemptor.priority) {
        return Err(Ineligible::Terminating);
    }
    let mut units = units(trial, preemptor);
    let mut statement = Statement::default();
    let found = search(trial, members, preemptor, (&mut statement, &mut units));
    let found = found.then(|| gather(trial, members, &statement, &units));
    trial.take_back(&mut statement, members);
    statement.undo(trial.cluster);
    Ok(found)
}

/// Whether pods of lower priority are ending already on a node that is being freed for a member.
fn is_being_freed(trial: &Trial<'_>, members: &[Member], priority: i32) -> bool {
    let nodes = members.iter().filter_map(|own| own.nominated.as_ref());
    let mut nodes = nodes.filter_map(|name| trial.cluster.find_node(name));
    nodes.any(|id| {
        let pods = &trial.cluster.node(id).pods;
        pods.iter()
            .any(|pod| pod.terminating && pod.preempted && pod.priority < priority)
    })
}

/// All that may go, the most important first (S4-019).
fn units(trial: &Trial<'_>, preemptor: &Preemptor<'_>) -> Vec<Unit> {
    let cluster = &*trial.cluster;
    let mut alone = Vec::new();
    let mut groups: HashMap<usize, Unit> = HashMap::new();
    for id in cluster
        .node_ids()
        .filter(|id| !preemptor.not_freed.contains(id))
    {
        for (index, pod) in cluster.node(id).pods.iter().enumerate() {
            let together = preemptor.together.pods.get(&*cluster.pod_key(pod));
            let priority = together.map_or(pod.priority, |(_, priority)| *priority);
            if priority >= preemptor.priority {
                continue;
            }
            let new = Unit {
                priority,
                start: pod.start,
                group: together.map(|(group, _)| *group),
                ..Unit::default()
            };
            if let Some((group, _)) = together {
                let unit = groups.entry(*group).or_insert(new);
                unit.start = unit.start.min(pod.start);
                unit.pods.push((id, index));
            } else {
                let pods = vec![(id, index)];
                alone.push(Unit { pods, ..new });
            }
        }
    }
    alone.extend(groups.into_values());
    alone.sort_by_key(|unit| {
        (
            Reverse(unit.priority),
            unit.start,
            unit.pods.first().copied(),
        )
    });
    let pods = alone.iter().flat_map(|unit| &unit.pods);
    let pods = pods.map(|(id, index)| -> &Pod { &cluster.node(*id).pods[*index] });
    let mut breaks = breaking(cluster, preemptor.budgets, pods).into_iter();
    for unit in &mut alone {
        let own: Vec<bool> = breaks.by_ref().take(unit.pods.len()).collect();
        unit.breaks = own.contains(&true);
    }
    alone
}

/// Places the members without any of the units, and puts back those that nobody misses; whether the members fit.
fn search(
    trial: &mut Trial<'_>,
    members: &mut [Member],
    preemptor: &Preemptor<'_>,
    (statement, units): (&mut Statement, &mut [Unit]),
) -> bool {
    remove_all(trial, statement, units);
    let Some(domain) = trial.run(statement, members, preemptor.domains) else {
        return false;
    };
    if members.iter().any(|own| !own.question.is_empty()) {
        return false;
    }
    let domain = preemptor.domains[domain];
    // Nodes that no member needs get all their pods back at once.
    let mut used = vec![false; trial.cluster.nodes().len()];
    for node in members.iter().filter_map(Member::node) {
        used[node.index()] = true;
    }
    let far = |unit: &Unit| unit.pods.iter().all(|(id, _)| !used[id.index()]);
    for unit in units.iter().filter(|unit| far(unit)) {
        put_back(trial, statement, unit);
    }
    for breaks in [true, false] {
        for unit in units
            .iter()
            .filter(|unit| unit.breaks == breaks && !far(unit))
        {
            reprieve(trial, members, domain, (statement, unit));
        }
    }
    still_fit(trial, members, statement)
}

fn remove_all(trial: &mut Trial<'_>, statement: &mut Statement, units: &mut [Unit]) {
    let pods = units.iter().enumerate();
    let pods =
        pods.flat_map(|(unit, own)| own.pods.iter().map(move |(id, index)| (*id, *index, unit)));
    let mut pods: Vec<(NodeId, usize, usize)> = pods.collect();
    // From the end of each node's list, so that the indices before stay what they are.
    pods.sort_unstable_by_key(|(id, index, _)| (*id, Reverse(*index)));
    for (id, index, unit) in pods {
        let removed = statement.remove(trial.cluster, id, index);
        units[unit].removed.push(removed);
    }
}

fn put_back(trial: &mut Trial<'_>, statement: &mut Statement, unit: &Unit) {
    for removed in &unit.removed {
        statement.put_back(trial.cluster, *removed);
    }
}

/// Puts a unit back if the members that are in its way fit elsewhere, or beside it.
fn reprieve(
    trial: &mut Trial<'_>,
    members: &mut [Member],
    domain: Domain<'_>,
    (statement, unit): (&mut Statement, &Unit),
) {
    let beside = |member: &Member| {
        let node = member.node();
        unit.pods.iter().any(|(id, _)| Some(*id) == node)
    };
    let displaced = members.iter().enumerate().filter(|(_, own)| beside(own));
    let displaced = displaced.map(|(index, own)| (index, own.node(), own.pre_bind.clone()));
    let displaced: Vec<(usize, Option<NodeId>, PreBindPlan)> = displaced.collect();
    for (index, ..) in &displaced {
        members[*index].take_back(trial.cluster, statement);
    }
    put_back(trial, statement, unit);
    let mut places = displaced.iter();
    if places.all(|(index, ..)| trial.place_one(statement, &mut members[*index], domain)) {
        return;
    }
    for removed in &unit.removed {
        statement.remove_again(trial.cluster, *removed);
    }
    for (index, node, pre_bind) in displaced {
        let member = &mut members[index];
        member.take_back(trial.cluster, statement);
        member.pre_bind = pre_bind;
        if let Some(node) = node {
            member.put(trial.cluster, statement, node);
        }
    }
}

/// Whether every member fits where it is beside those that were put back after it: affinity and spread reach beyond a node.
fn still_fit(trial: &mut Trial<'_>, members: &mut [Member], statement: &mut Statement) -> bool {
    members.iter_mut().all(|member| {
        let Some(node) = member.node() else {
            return true;
        };
        member.take_back(trial.cluster, statement);
        let framework = &trial.frameworks[member.profile];
        let fits = member.pod.as_ref().is_some_and(|pod| {
            let (mut checks, _) = framework.checks(trial.cluster, pod);
            checks.verdict(node).is_ok()
        });
        member.put(trial.cluster, statement, node);
        fits
    })
}

fn gather(
    trial: &Trial<'_>,
    members: &[Member],
    statement: &Statement,
    units: &[Unit],
) -> Preemption {
    let nominations = members.iter().enumerate();
    let nominations = nominations.filter_map(|(index, own)| Some((index, own.node()?)));
    let is_away = |removed: &usize| statement.removed(*removed);
    let away = units.iter().flat_map(|unit| &unit.removed);
    let victims = away.filter_map(is_away).map(|(node, pod)| Victim {
        node,
        name: trial.cluster.full_name(pod),
        uid: pod.uid().to_owned(),
        terminating: pod.terminating,
    });
    let groups = units
        .iter()
        .filter(|unit| unit.removed.iter().any(|own| is_away(own).is_some()));
    Preemption {
        nominations: nominations.collect(),
        victims: victims.collect(),
        groups: groups.filter_map(|unit| unit.group).collect(),
    }
}
