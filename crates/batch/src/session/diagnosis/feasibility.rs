//! Where the pending pods of a job would fit, and why nodes refuse them.

use super::written;
use crate::session::Session;
use crate::session::resource::{Dim, Resource, number};
use crate::session::roles::Role;
use crate::session::transaction::Operations;
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
    /// How many of its pods wait for room, those with scheduling gates aside.
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
    /// Why it cannot be asked for.
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

impl Session<'_> {
    /// Tries to place the pods that wait, and takes all back.
    pub(super) fn feasibility_of(&mut self, job: usize) -> Feasibility {
        let tasks = self.in_order(job);
        let mut feasibility = Feasibility {
            nodes: self.snapshot.nodes.len(),
            waiting: tasks.len(),
            ..Feasibility::default()
        };
        let Some(choice) = self.choice(job) else {
            return self.placed(feasibility, tasks);
        };
        let Some((within, _)) = self.roomiest(job, &choice) else {
            for task in tasks {
                let role = self.role_at(&mut feasibility.roles, task);
                feasibility.roles[role].waiting += 1;
                feasibility.roles[role].mistake = Some(self.no_domain_words(job));
            }
            return feasibility;
        };
        feasibility.within = Some(self.domains.words(within));
        let inside = 0..self.snapshot.nodes.len();
        feasibility.nodes = inside
            .filter(|node| self.domains.reaches(Some(within), *node))
            .count();
        self.within((job, Some(within)), |session| {
            session.placed(feasibility, tasks)
        })
    }

    /// The same within the domain that is set.
    fn placed(&mut self, mut feasibility: Feasibility, tasks: Vec<usize>) -> Feasibility {
        let mut operations = Operations::default();
        let mut failed: Vec<usize> = Vec::new();
        for task_id in tasks {
            let task = &self.snapshot.tasks[task_id];
            let alike = |other: &usize| {
                let other = &self.snapshot.tasks[*other];
                task.role != 0 && other.role == task.role && other.request == task.request
            };
            let fails = failed.iter().any(alike);
            let role = self.role_at(&mut feasibility.roles, task_id);
            feasibility.roles[role].waiting += 1;
            if fails {
                failed.push(task_id);
                continue;
            }
            let needs_room = !self.snapshot.tasks[task_id].best_effort;
            let (evaluator, view) = self.evaluation();
            if let Ok(node) = evaluator.choose(view, task_id, needs_room, None) {
                feasibility.roles[role].placed += 1;
                self.try_on(&mut operations, &mut feasibility, task_id, node);
                continue;
            }
            let report = &mut feasibility.roles[role];
            if report.refused.is_empty() {
                self.refused(report, task_id, needs_room);
            }
            failed.push(task_id);
        }
        if let Some(first) = failed.first() {
            feasibility.first = Some(self.snapshot.tasks[*first].key.to_string());
            feasibility.request = self.asked_by(*first, |_| true);
            feasibility.nearest = self.nearest(*first, &failed);
        }
        self.discard(operations);
        feasibility
    }

    fn try_on(
        &mut self,
        operations: &mut Operations,
        feasibility: &mut Feasibility,
        task_id: usize,
        node: usize,
    ) {
        let task = &self.snapshot.tasks[task_id];
        let name = self.cluster.node_name(evictd_placement::NodeId::of(node));
        feasibility
            .placed
            .push((task.key.to_string(), name.to_owned()));
        if self.snapshot.nodes[node].has_idle(&task.request) {
            feasibility.now += 1;
            self.allocate_on(operations, task_id, node);
        } else {
            feasibility.later += 1;
            self.pipeline_on(operations, task_id, node, false);
        }
    }

    /// The place of a task's role among those that were met.
    fn role_at(&self, roles: &mut Vec<RoleFeasibility>, task_id: usize) -> usize {
        let task = &self.snapshot.tasks[task_id];
        let name = self.role_name(task.role);
        if let Some(at) = roles.iter().position(|role| role.role == name) {
            return at;
        }
        roles.push(RoleFeasibility {
            role: name.to_owned(),
            request: self.asked_by(task_id, |dim| dim != Dim::PODS),
            ..RoleFeasibility::default()
        });
        roles.len() - 1
    }

    /// The request of a task, for some resources.
    fn asked_by(&self, task: usize, which: fn(Dim) -> bool) -> BTreeMap<String, Quantity> {
        let asked = self.snapshot.tasks[task].request.some();
        let asked = asked.filter(|(dim, _)| which(*dim));
        let request = asked.map(|(dim, amount)| {
            let name = self.snapshot.dims.name(dim);
            (name.to_owned(), written(name, amount))
        });
        request.collect()
    }

    fn role_name(&self, role: Role) -> &str {
        self.snapshot.roles.name(role)
    }

    /// Counts the nodes by their reasons against a task, within its domain if it belongs in one.
    fn refused(&mut self, role: &mut RoleFeasibility, task: usize, needs_room: bool) {
        let (evaluator, view) = self.evaluation();
        let within = view.snapshot.jobs[view.snapshot.tasks[task].job].within;
        let counts = |node| view.domains.reaches(within, node);
        match evaluator.refusals(view, task, needs_room) {
            Ok(refusals) => {
                let refusals = refusals.enumerate().filter(|(node, _)| counts(*node));
                for (_, texts) in refusals {
                    *role.refused.entry(texts.join(" and ")).or_default() += 1;
                }
            }
            Err(error) => role.mistake = Some(error.text().to_owned()),
        }
    }

    /// The nodes that shortfall nothing but room for a task, those that shortfall the least first.
    fn nearest(&mut self, task: usize, failed: &[usize]) -> Vec<NearMiss> {
        let request = self.snapshot.tasks[task].request.clone();
        let mut all = Resource::default();
        for task in failed {
            all.add(&self.snapshot.tasks[*task].request);
        }
        let mut near: Vec<(f64, usize)> = Vec::new();
        for node in self.snapshot.by_rank.clone() {
            let (evaluator, view) = self.evaluation();
            if !evaluator.lacks_only_room(view, task, node) {
                continue;
            }
            let idle = self.snapshot.nodes[node].future_idle();
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
            let idle = self.snapshot.nodes[node].future_idle();
            let scarce = |wanted: &Resource| {
                let lacks = missing(wanted, &idle).into_iter();
                let lacks = lacks.map(|(dim, shortfall)| {
                    let name = self.snapshot.dims.name(dim);
                    MissingAmount {
                        resource: name.to_owned(),
                        amount: written(name, shortfall),
                    }
                });
                lacks.collect()
            };
            let id = evictd_placement::NodeId::of(node);
            NearMiss {
                node: self.cluster.node_name(id).to_owned(),
                free: self.idle_of(&request, &idle),
                one: scarce(&request),
                all: scarce(&all),
            }
        });
        report.collect()
    }
}

impl Session<'_> {
    /// The idle amounts of the resources that a request names.
    fn idle_of(&self, request: &Resource, idle: &Resource) -> BTreeMap<String, Quantity> {
        let free = request.some().map(|(dim, _)| {
            let name = self.snapshot.dims.name(dim);
            (name.to_owned(), written(name, idle.get(dim)))
        });
        free.collect()
    }
}

/// The resources of which there is too little.
fn missing(wanted: &Resource, idle: &Resource) -> Vec<(Dim, f64)> {
    let wanted = wanted.some();
    let lacks = wanted.map(|(dim, amount)| (dim, amount - idle.get(dim)));
    lacks
        .filter(|(_, shortfall)| *shortfall >= number(1))
        .collect()
}
