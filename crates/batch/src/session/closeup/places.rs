//! Where the pods of a job that wait would find room, and what nodes say where they would not.

use super::written;
use crate::session::Session;
use crate::session::resource::{Dim, Resource, number};
use crate::session::statement::Steps;
use crate::session::task::Role;
use evictd_pod::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

/// The most nodes whose lack is told.
const NEAREST: usize = 5;

/// Room for the pods of a job that wait, whatever its queue may have.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Places {
    /// How many nodes there are, in the domain that all of them have to be in.
    pub nodes: usize,
    /// How many of its pods wait for room, those with scheduling gates aside.
    pub waiting: usize,
    /// How many of them would find room now.
    pub now: usize,
    /// How many of the others would once pods that are going have gone.
    pub later: usize,
    /// The domain that all of them have to be in, as the one of several that has the most room for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
    /// By role.
    pub roles: Vec<RolePlaces>,
    /// The nodes that would have room for one more with the least more, and nothing else against it.
    pub nearest: Vec<NearNode>,
    /// Pods that would find room now or later, with their nodes.
    pub placed: Vec<(String, String)>,
    /// The first pod that fits on no node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first: Option<String>,
    /// What it asks for; `pods` is itself.
    #[serde(skip)]
    pub request: BTreeMap<String, Quantity>,
}

/// The pods of a role.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolePlaces {
    /// Its name; empty where the pods name none.
    pub role: String,
    /// How many wait.
    pub waiting: usize,
    /// How many of them would find room, now or later.
    pub placed: usize,
    /// What each asks for.
    pub request: BTreeMap<String, Quantity>,
    /// What the nodes say to the first that fits nowhere: how many of them say so. Together they are all nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub refused: BTreeMap<String, usize>,
    /// Why it cannot be asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mistake: Option<String>,
}

/// A node that has too little room.
#[derive(Debug, Clone, Serialize)]
pub struct NearNode {
    /// The node.
    pub node: String,
    /// What is free of what the pod asks for, or will be once pods that are going have gone.
    pub free: BTreeMap<String, Quantity>,
    /// What it lacks for one more pod.
    pub one: Vec<Scarce>,
    /// What it lacks for all that fit nowhere.
    pub all: Vec<Scarce>,
}

/// So much of a resource is lacking.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Scarce {
    /// The resource; `pods` is the number of pods.
    pub resource: String,
    /// How much more it would take.
    pub amount: Quantity,
}

impl Session<'_> {
    /// Tries to place the pods that wait, and takes all back.
    pub(super) fn places_of(&mut self, job: usize) -> Places {
        let tasks = self.in_order(job);
        let mut places = Places {
            nodes: self.model.nodes.len(),
            waiting: tasks.len(),
            ..Places::default()
        };
        let Some(choice) = self.choice(job) else {
            return self.placed(places, tasks);
        };
        let Some((within, _)) = self.roomiest(job, &choice) else {
            for task in tasks {
                let role = self.role_at(&mut places.roles, task);
                places.roles[role].waiting += 1;
                places.roles[role].mistake = Some(self.no_domain_words(job));
            }
            return places;
        };
        places.within = Some(self.domains.words(within));
        let inside = 0..self.model.nodes.len();
        places.nodes = inside
            .filter(|node| self.domains.reaches(Some(within), *node))
            .count();
        self.within((job, Some(within)), |own| own.placed(places, tasks))
    }

    /// The same within the domain that is set.
    fn placed(&mut self, mut places: Places, tasks: Vec<usize>) -> Places {
        let mut steps = Steps::default();
        let mut failed: Vec<usize> = Vec::new();
        for task in tasks {
            let own = &self.model.tasks[task];
            let alike = |other: &usize| {
                let other = &self.model.tasks[*other];
                own.role != 0 && other.role == own.role && other.request == own.request
            };
            let fails = failed.iter().any(alike);
            let role = self.role_at(&mut places.roles, task);
            places.roles[role].waiting += 1;
            if fails {
                failed.push(task);
                continue;
            }
            let needs_room = !self.model.tasks[task].best_effort;
            let (judge, view) = self.asking();
            if let Ok(node) = judge.choose(view, task, needs_room, None) {
                places.roles[role].placed += 1;
                self.try_on(&mut steps, &mut places, task, node);
                continue;
            }
            let told = &mut places.roles[role];
            if told.refused.is_empty() {
                self.refused(told, task, needs_room);
            }
            failed.push(task);
        }
        if let Some(first) = failed.first() {
            places.first = Some(self.model.tasks[*first].key.to_string());
            places.request = self.asked_by(*first, |_| true);
            places.nearest = self.nearest(*first, &failed);
        }
        self.discard(steps);
        places
    }

    fn try_on(&mut self, steps: &mut Steps, places: &mut Places, task: usize, node: usize) {
        let own = &self.model.tasks[task];
        let name = self.cluster.node_name(evictd_placement::NodeId::of(node));
        places.placed.push((own.key.to_string(), name.to_owned()));
        if self.model.nodes[node].has_idle(&own.request) {
            places.now += 1;
            self.allocate_on(steps, task, node);
        } else {
            places.later += 1;
            self.pipeline_on(steps, task, node, false);
        }
    }

    /// The place of a task's role among those that were met.
    fn role_at(&self, roles: &mut Vec<RolePlaces>, task: usize) -> usize {
        let own = &self.model.tasks[task];
        let name = self.role_name(own.role);
        if let Some(at) = roles.iter().position(|role| role.role == name) {
            return at;
        }
        roles.push(RolePlaces {
            role: name.to_owned(),
            request: self.asked_by(task, |dim| dim != Dim::PODS),
            ..RolePlaces::default()
        });
        roles.len() - 1
    }

    /// What a task asks for of some resources.
    fn asked_by(&self, task: usize, which: fn(Dim) -> bool) -> BTreeMap<String, Quantity> {
        let asked = self.model.tasks[task].request.some();
        let asked = asked.filter(|(dim, _)| which(*dim));
        let request = asked.map(|(dim, amount)| {
            let name = self.model.dims.name(dim);
            (name.to_owned(), written(name, amount))
        });
        request.collect()
    }

    fn role_name(&self, role: Role) -> &str {
        self.model.roles.get(role as usize).map_or("", |own| own)
    }

    /// Counts the nodes by what they say to a task, those of its domain if it has to be in one.
    fn refused(&mut self, role: &mut RolePlaces, task: usize, needs_room: bool) {
        let (judge, view) = self.asking();
        let within = view.model.jobs[view.model.tasks[task].job].within;
        let counts = |node| view.domains.reaches(within, node);
        match judge.refusals(view, task, needs_room) {
            Ok(refusals) => {
                let refusals = refusals.enumerate().filter(|(node, _)| counts(*node));
                for (_, texts) in refusals {
                    *role.refused.entry(texts.join(" and ")).or_default() += 1;
                }
            }
            Err(error) => role.mistake = Some(error.text().to_owned()),
        }
    }

    /// The nodes that lack nothing but room for a task, those that lack the least first.
    fn nearest(&mut self, task: usize, failed: &[usize]) -> Vec<NearNode> {
        let request = self.model.tasks[task].request.clone();
        let mut all = Resource::default();
        for task in failed {
            all.add(&self.model.tasks[*task].request);
        }
        let mut near: Vec<(f64, usize)> = Vec::new();
        for node in self.model.by_rank.clone() {
            let (judge, view) = self.asking();
            if !judge.lacks_only_room(view, task, node) {
                continue;
            }
            let idle = self.model.nodes[node].future_idle();
            let lacks = missing(&request, &idle);
            if lacks.is_empty() {
                continue;
            }
            let parts = lacks.iter().map(|(dim, lack)| lack / request.get(*dim));
            near.push((parts.fold(0.0, f64::max), node));
        }
        // The order of names decides between equals.
        near.sort_by(|one, other| one.0.total_cmp(&other.0));
        near.truncate(NEAREST);
        let told = near.into_iter().map(|(_, node)| {
            let idle = self.model.nodes[node].future_idle();
            let scarce = |wanted: &Resource| {
                let lacks = missing(wanted, &idle).into_iter();
                let lacks = lacks.map(|(dim, lack)| {
                    let name = self.model.dims.name(dim);
                    Scarce {
                        resource: name.to_owned(),
                        amount: written(name, lack),
                    }
                });
                lacks.collect()
            };
            let id = evictd_placement::NodeId::of(node);
            NearNode {
                node: self.cluster.node_name(id).to_owned(),
                free: self.idle_of(&request, &idle),
                one: scarce(&request),
                all: scarce(&all),
            }
        });
        told.collect()
    }
}

impl Session<'_> {
    /// How much is idle of what a request names.
    fn idle_of(&self, request: &Resource, idle: &Resource) -> BTreeMap<String, Quantity> {
        let free = request.some().map(|(dim, _)| {
            let name = self.model.dims.name(dim);
            (name.to_owned(), written(name, idle.get(dim)))
        });
        free.collect()
    }
}

/// What there is too little of.
fn missing(wanted: &Resource, idle: &Resource) -> Vec<(Dim, f64)> {
    let wanted = wanted.some();
    let lacks = wanted.map(|(dim, amount)| (dim, amount - idle.get(dim)));
    lacks.filter(|(_, lack)| *lack >= number(1)).collect()
}
