//! Where the pending pods of a job would fit, and why nodes refuse them.

use super::written;
use crate::session::Session;
use crate::session::diagnosis::blocking_reason;
use crate::session::domain_search;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::TOP;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource, number};
use crate::session::snapshot::roles::Role;
use crate::session::transaction::Operations;
use crate::session::transaction::Transaction;
use evictd_placement::NodeId;
use evictd_pod::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

/// The number of near misses that are reported.
const NEAREST: usize = 5;

/// Room for the pods of a job that wait, whatever its queue may have.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Feasibility {
    /// How many nodes there are, in the domain that all of them have to be in.
    pub nodes: usize,
    /// How many of its pods are pending, without those with scheduling gates.
    pub waiting: usize,
    /// How many of them would find room now.
    pub now: usize,
    /// How many more would fit after the pending evictions.
    pub later: usize,
    /// The domain that all of them have to be in, as the one of several that has the most room for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// By role.
    pub roles: Vec<RoleFeasibility>,
    /// The nodes that would have room for one more with the least more, and nothing else against it.
    pub nearest: Vec<NearMiss>,
    /// Pods that would find room now or later, with their nodes.
    pub placed: Vec<(String, String)>,
    /// The first pod that fits on no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// Its request; `pods` is the pod itself.
    #[serde(skip)]
    pub request: BTreeMap<String, Quantity>,
}

/// The pods of a role.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RoleFeasibility {
    /// Its name; empty where the pods name none.
    pub role: String,
    /// How many wait.
    pub waiting: usize,
    /// How many of them would find room, now or later.
    pub placed: usize,
    /// The request of each.
    pub request: BTreeMap<String, Quantity>,
    /// How many nodes give each reason to the first pod that fits nowhere. The counts add up to all nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, usize>,
    /// Why the pod cannot be compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake: Option<String>,
}

/// A node that has too little room.
#[derive(Debug, Clone, Serialize)]
pub struct NearMiss {
    /// The node.
    pub node: String,
    /// The idle amounts of the requested resources, after pending evictions.
    pub free: BTreeMap<String, Quantity>,
    /// The shortfall for one more pod.
    pub one: Vec<MissingAmount>,
    /// The shortfall for all that fit nowhere.
    pub all: Vec<MissingAmount>,
}

/// So much of a resource is lacking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MissingAmount {
    /// The resource; `pods` is the number of pods.
    pub resource: String,
    /// How much more it would take.
    pub amount: Quantity,
}

/// Tries to place the pods that wait, and takes all back.
pub(super) fn feasibility_of(session: &mut Session<'_>, job: JobId) -> Feasibility {
    let tasks = blocking_reason::in_order(session, job);
    let mut feasibility = Feasibility {
        nodes: session.tx.snapshot.nodes.len(),
        waiting: tasks.len(),
        ..Feasibility::default()
    };
    let Some(choice) = domain_search::choice(session, job) else {
        return placed(session, feasibility, tasks);
    };
    let Some((within, _)) = domain_search::most_idle_domain(session, job, &choice) else {
        for task in tasks {
            let role = role_at(&session.tx.snapshot, &mut feasibility.roles, task);
            feasibility.roles[role].waiting += 1;
            feasibility.roles[role].mistake =
                Some(domain_search::no_domain_message(&session.tx.snapshot, job));
        }
        return feasibility;
    };
    // All nodes together are no domain.
    let words = session.topology.words(within);
    feasibility.within = Some(words).filter(|words| words != TOP);
    let inside = session.tx.snapshot.node_ids();
    feasibility.nodes = inside
        .filter(|node| session.topology.reaches(Some(within), *node))
        .count();
    domain_search::within(session, (job, Some(within)), |session| {
        placed(session, feasibility, tasks)
    })
}

/// The same within the domain that is set.
fn placed(
    session: &mut Session<'_>,
    mut feasibility: Feasibility,
    tasks: Vec<TaskId>,
) -> Feasibility {
    let mut operations = Operations::default();
    let mut failed: Vec<TaskId> = Vec::new();
    for task_id in tasks {
        let task = &session.tx.snapshot.tasks[task_id];
        let alike = |other: &TaskId| {
            let other = &session.tx.snapshot.tasks[*other];
            // A task like one that has failed fails, too, and the trial of each is expensive.
            task.role != 0 && other.role == task.role && other.request == task.request
        };
        let record_fit_error = failed.iter().any(alike);
        let role = role_at(&session.tx.snapshot, &mut feasibility.roles, task_id);
        feasibility.roles[role].waiting += 1;
        if record_fit_error {
            failed.push(task_id);
            continue;
        }
        let needs_room = !session.tx.snapshot.tasks[task_id].best_effort;
        let (evaluator, view) = session.evaluation();
        if let Ok(node) = evaluator.choose(view, task_id, needs_room, None) {
            feasibility.roles[role].placed += 1;
            try_on(
                &mut session.tx,
                &mut operations,
                &mut feasibility,
                task_id,
                node,
            );
            continue;
        }
        let report = &mut feasibility.roles[role];
        if report.refused.is_empty() {
            refused(session, report, task_id, needs_room);
        }
        failed.push(task_id);
    }
    if let Some(first) = failed.first() {
        feasibility.first = Some(session.tx.snapshot.tasks[*first].key.to_string());
        feasibility.request = asked_by(&session.tx.snapshot, *first, |_| true);
        feasibility.nearest = nearest(session, *first, &failed);
    }
    session.tx.discard(operations);
    feasibility
}

fn try_on(
    tx: &mut Transaction<'_>,
    operations: &mut Operations,
    feasibility: &mut Feasibility,
    task_id: TaskId,
    node: NodeId,
) {
    let task = &tx.snapshot.tasks[task_id];
    let name = tx.cluster.node_name(node);
    feasibility
        .placed
        .push((task.key.to_string(), name.to_owned()));
    if tx.snapshot.nodes[node.index()].has_idle(&task.request) {
        feasibility.now += 1;
        tx.allocate(operations, task_id, node);
    } else {
        feasibility.later += 1;
        tx.pipeline(operations, task_id, node, false);
    }
}

/// The index of a task's role; a new role is added.
fn role_at(snapshot: &Snapshot, roles: &mut Vec<RoleFeasibility>, task_id: TaskId) -> usize {
    let task = &snapshot.tasks[task_id];
    let name = role_name(snapshot, task.role);
    if let Some(at) = roles.iter().position(|role| role.role == name) {
        return at;
    }
    roles.push(RoleFeasibility {
        role: name.to_owned(),
        request: asked_by(snapshot, task_id, |dim| dim != Dim::PODS),
        ..RoleFeasibility::default()
    });
    roles.len() - 1
}

/// The request of a task, for some resources.
fn asked_by(
    snapshot: &Snapshot,
    task: TaskId,
    which: fn(Dim) -> bool,
) -> BTreeMap<String, Quantity> {
    let asked = snapshot.tasks[task].request.some();
    let asked = asked.filter(|(dim, _)| which(*dim));
    let request = asked.map(|(dim, amount)| {
        let name = snapshot.dims.name(dim);
        (name.to_owned(), written(name, amount))
    });
    request.collect()
}

fn role_name(snapshot: &Snapshot, role: Role) -> &str {
    snapshot.roles.name(role)
}

/// Counts the nodes by their reasons against a task, within its domain if it belongs in one.
fn refused(session: &mut Session<'_>, role: &mut RoleFeasibility, task: TaskId, needs_room: bool) {
    let (evaluator, view) = session.evaluation();
    let within = view.snapshot.jobs[view.snapshot.tasks[task].job].within;
    let counts = |node| view.domains.reaches(within, node);
    match evaluator.refusals(view, task, needs_room) {
        Ok(refusals) => {
            let refusals = view.snapshot.node_ids().zip(refusals);
            let refusals = refusals.filter(|(node, _)| counts(*node));
            for (_, texts) in refusals {
                *role.refused.entry(texts.join(" and ")).or_default() += 1;
            }
        }
        Err(error) => role.mistake = Some(error.text().to_owned()),
    }
}

/// The nodes that lack only room for a task, smallest shortfall first.
fn nearest(session: &mut Session<'_>, task: TaskId, failed: &[TaskId]) -> Vec<NearMiss> {
    let request = session.tx.snapshot.tasks[task].request.clone();
    let mut all = Resource::default();
    for task in failed {
        all.add(&session.tx.snapshot.tasks[*task].request);
    }
    let mut near: Vec<(f64, NodeId)> = Vec::new();
    for node in session.tx.snapshot.by_rank.clone() {
        let (evaluator, view) = session.evaluation();
        if !evaluator.lacks_only_room(view, task, node) {
            continue;
        }
        let idle = session.tx.snapshot.nodes[node.index()].future_idle();
        let lacks = missing(&request, &idle);
        if lacks.is_empty() {
            continue;
        }
        let parts = lacks
            .iter()
            .map(|(dim, shortfall)| shortfall / request.get(*dim));
        near.push((parts.fold(0.0, f64::max), node));
    }
    // The order of names decides between equals.
    near.sort_by(|one, other| one.0.total_cmp(&other.0));
    near.truncate(NEAREST);
    let report = near.into_iter().map(|(_, node)| {
        let idle = session.tx.snapshot.nodes[node.index()].future_idle();
        let scarce = |wanted: &Resource| {
            let lacks = missing(wanted, &idle).into_iter();
            let lacks = lacks.map(|(dim, shortfall)| {
                let name = session.tx.snapshot.dims.name(dim);
                MissingAmount {
                    resource: name.to_owned(),
                    amount: written(name, shortfall),
                }
            });
            lacks.collect()
        };
        NearMiss {
            node: session.tx.cluster.node_name(node).to_owned(),
            free: idle_of(&session.tx.snapshot, &request, &idle),
            one: scarce(&request),
            all: scarce(&all),
        }
    });
    report.collect()
}

/// The idle amounts of the resources that a request names.
fn idle_of(snapshot: &Snapshot, request: &Resource, idle: &Resource) -> BTreeMap<String, Quantity> {
    let free = request.some().map(|(dim, _)| {
        let name = snapshot.dims.name(dim);
        (name.to_owned(), written(name, idle.get(dim)))
    });
    free.collect()
}

/// The resources with too little idle.
fn missing(wanted: &Resource, idle: &Resource) -> Vec<(Dim, f64)> {
    let wanted = wanted.some();
    let lacks = wanted.map(|(dim, amount)| (dim, amount - idle.get(dim)));
    lacks
        .filter(|(_, shortfall)| *shortfall >= number(1))
        .collect()
}
