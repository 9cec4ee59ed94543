//! Placing a job part by part, within groups of near nodes (S6-177 to S6-187).

use crate::session::Session;
use crate::session::actions::task_placement::{self, Goal};
use crate::session::domain_search;
use crate::session::plugins::{Purpose, Tiers};
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::HyperNodeId;
use crate::session::snapshot::ids::{DomainId, JobId, TaskId};
use crate::session::snapshot::task::Status;
use crate::session::transaction::{Operations, Placement};
use evictd_batch_objects::Difference;

/// The pending tasks of a job by its parts.
#[derive(Debug, Clone)]
pub(super) struct PendingParts {
    /// The parts that have some.
    parts: Vec<usize>,
    /// The parts that the job needs to start.
    required: Vec<usize>,
    /// By part.
    tasks: Vec<PriorityQueue<TaskId>>,
}

/// A trial that lets the job start, now or after pending evictions.
struct Solution {
    group: HyperNodeId,
    placements: Vec<Placement>,
    pending: PendingParts,
    /// By part, the group of its placed tasks.
    allocated: Vec<Option<HyperNodeId>>,
    score: f64,
}

impl PendingParts {
    pub(super) fn of(tiers: Tiers<'_>, job: JobId) -> Self {
        let Some(network) = &tiers.snapshot.jobs[job].network else {
            return Self {
                parts: Vec::new(),
                required: Vec::new(),
                tasks: Vec::new(),
            };
        };
        let mut tasks = vec![PriorityQueue::default(); network.sub_jobs.len()];
        let mut waiting = task_placement::waiting(tiers, job);
        while let Some(task) = waiting.pop(|one, other| tiers.task_before(one, other)) {
            let part = tiers.snapshot.tasks[task].sub_job;
            tasks[part].push(task, |one, other| tiers.task_before(one, other));
        }
        let parts = (0..tasks.len()).filter(|part| !tasks[*part].is_empty());
        let parts: Vec<usize> = parts.collect();
        Self {
            required: required(tiers, job),
            parts,
            tasks,
        }
    }

    /// The tasks of each part, in the order in which the parts are tried.
    pub(super) fn into_parts(mut self, tiers: Tiers<'_>, job: JobId) -> Vec<(usize, Vec<TaskId>)> {
        let mut parts = Vec::new();
        while let Some(part) = self.pop(tiers, job) {
            let waiting = &mut self.tasks[part];
            let tasks =
                std::iter::from_fn(|| waiting.pop(|one, other| tiers.task_before(one, other)));
            parts.push((part, tasks.collect()));
        }
        parts
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Takes the first part: those that the job needs come before the others.
    fn pop(&mut self, tiers: Tiers<'_>, job: JobId) -> Option<usize> {
        let network = tiers.snapshot.jobs[job].network.as_ref()?;
        let before = |one: usize, other: usize| {
            let (needed, other_needed) =
                (self.required.contains(&one), self.required.contains(&other));
            if needed != other_needed {
                return needed;
            }
            tiers.part_before(&network.sub_jobs[one], &network.sub_jobs[other])
        };
        let all = 0..self.parts.len();
        let first = all.reduce(|first, at| {
            if before(self.parts[at], self.parts[first]) {
                at
            } else {
                first
            }
        })?;
        Some(self.parts.remove(first))
    }
}

/// The smallest set of parts that is not ready and that the job needs to start.
fn required(tiers: Tiers<'_>, job: JobId) -> Vec<usize> {
    let Some(network) = &tiers.snapshot.jobs[job].network else {
        return Vec::new();
    };
    let mut counts = vec![0; network.policies.len()];
    let mut waiting = Vec::new();
    for (at, part) in network.sub_jobs.iter().enumerate() {
        match part.policy {
            Some(policy) if tiers.is_part_ready(job, at) => counts[policy] += 1,
            Some(policy) => waiting.push((at, policy)),
            None => {}
        }
    }
    waiting.sort_by(|(one, _), (other, _)| {
        let (one, other) = (&network.sub_jobs[*one], &network.sub_jobs[*other]);
        tiers
            .part_before(other, one)
            .cmp(&tiers.part_before(one, other))
    });
    let mut required = Vec::new();
    for (at, policy) in waiting {
        let wanted = network.policies[policy].min_sub_groups.unwrap_or(0);
        if counts[policy] < wanted {
            counts[policy] += 1;
            required.push(at);
        }
    }
    required
}

/// Places a job in the best group of the first tier where it can start; returns the group. `None` if it can nowhere.
pub(super) fn place(
    session: &mut Session<'_>,
    job: JobId,
    pending: &mut PendingParts,
) -> Option<(Operations, HyperNodeId)> {
    for groups in tiers_of_job(session, job) {
        let mut best: Option<Solution> = None;
        for group in groups {
            let found = try_job(session, job, pending, group);
            if let Some(found) = found
                && best.as_ref().is_none_or(|best| found.score > best.score)
            {
                best = Some(found);
            }
        }
        let Some(best) = best else { continue };
        *pending = best.pending;
        set_allocated(&mut session.tx.snapshot, job, &best.allocated);
        return Some((session.tx.repeat(&best.placements), best.group));
    }
    None
}

/// The groups where a job is tried.
fn tiers_of_job(session: &Session<'_>, job: JobId) -> Vec<Vec<HyperNodeId>> {
    let snapshot = &session.tx.snapshot;
    let job = &snapshot.jobs[job];
    let Some(network) = &job.network else {
        return Vec::new();
    };
    let top = snapshot.hyper_nodes.top();
    // Minimum resources may be those of more pods than the job needs to start.
    let need = match network.sub_jobs.as_slice() {
        _ if !session.tx.compat.has(Difference::ElasticPartsStart) => job.min_resources.clone(),
        [part] => part.needed(&snapshot.tasks),
        _ => None,
    };
    session.tx.tiers().gradient(
        network.nearness,
        top,
        (network.allocated, need.as_ref()),
        Purpose::Allocate,
    )
}

/// Tries a job in a group, and undoes that.
fn try_job(
    session: &mut Session<'_>,
    job: JobId,
    pending: &PendingParts,
    group: HyperNodeId,
) -> Option<Solution> {
    let of_job = &mut session.tx.snapshot.jobs[job];
    of_job.fit_errors.clear();
    of_job.failed_roles.clear();
    let before = allocated(&session.tx.snapshot, job);
    let mut pending = pending.clone();
    let mut operations = Operations::default();
    let mut score = 0.0;
    while let Some(part) = pending.pop(session.tx.tiers(), job) {
        let tasks = &mut pending.tasks[part];
        let Some((placed, of_part)) = place_part(session, (job, part), tasks, group) else {
            continue;
        };
        operations.append(placed);
        score += of_part;
        if !tasks.is_empty() {
            pending.parts.push(part);
        }
        if session.tx.tiers().is_ready(job) {
            break;
        }
    }
    let tiers = session.tx.tiers();
    let starts = operations.placed() > 0 && (tiers.is_ready(job) || tiers.is_pipelined(job));
    let solution = starts.then(|| Solution {
        group,
        placements: operations.placements(&session.tx.snapshot),
        pending,
        allocated: allocated(&session.tx.snapshot, job),
        score,
    });
    session.tx.discard(operations);
    set_allocated(&mut session.tx.snapshot, job, &before);
    solution
}

/// Places a part of a job in the best group of the first tier below `root` where it can start; returns its score, too.
fn place_part(
    session: &mut Session<'_>,
    (job, part): (JobId, usize),
    tasks: &mut PriorityQueue<TaskId>,
    root: HyperNodeId,
) -> Option<(Operations, f64)> {
    for groups in tiers_of_part(session, (job, part), root) {
        let mut found = Vec::new();
        for group in groups {
            let mut left = tasks.clone();
            if let Some(placements) = try_part(session, (job, part), &mut left, group) {
                found.push((group, placements, left));
            }
        }
        let candidates: Vec<HyperNodeId> = found.iter().map(|(group, ..)| *group).collect();
        let scores = match &session.tx.snapshot.jobs[job].network {
            Some(network) => {
                let of_part = &network.sub_jobs[part];
                session.tx.tiers().group_scores(of_part, &candidates)
            }
            None => vec![0.0; candidates.len()],
        };
        let rated = found.into_iter().zip(scores);
        let best = rated.reduce(|best, other| if other.1 > best.1 { other } else { best });
        let Some(((group, placements, left), score)) = best else {
            continue;
        };
        let operations = session.tx.repeat(&placements);
        let snapshot = &mut session.tx.snapshot;
        if let Some(network) = &mut snapshot.jobs[job].network {
            let of_part = &mut network.sub_jobs[part];
            of_part.allocated = snapshot.hyper_nodes.common(of_part.allocated, Some(group));
        }
        *tasks = left;
        return Some((operations, score));
    }
    None
}

/// The groups below `root` where a part of a job is tried.
fn tiers_of_part(
    session: &Session<'_>,
    (job, part): (JobId, usize),
    root: HyperNodeId,
) -> Vec<Vec<HyperNodeId>> {
    let snapshot = &session.tx.snapshot;
    let Some(network) = &snapshot.jobs[job].network else {
        return Vec::new();
    };
    let part = &network.sub_jobs[part];
    let need = if session.tx.compat.has(Difference::ElasticPartsStart) {
        part.needed(&snapshot.tasks)
    } else {
        Some(part.waiting(&snapshot.tasks))
    };
    session.tx.tiers().gradient(
        part.nearness,
        root,
        (part.allocated, need.as_ref()),
        Purpose::Allocate,
    )
}

/// Tries a part of a job in a group, and undoes that.
fn try_part(
    session: &mut Session<'_>,
    (job, part): (JobId, usize),
    tasks: &mut PriorityQueue<TaskId>,
    group: HyperNodeId,
) -> Option<Vec<Placement>> {
    forget_errors(&mut session.tx.snapshot, job, part);
    if session.tx.snapshot.hyper_nodes.at(group).nodes.is_empty() {
        return None;
    }
    let top = session.tx.snapshot.hyper_nodes.top();
    let within = (group != top).then_some(DomainId::Group(group));
    let has_parts = session.tx.snapshot.jobs[job].network.as_ref();
    let has_parts = has_parts.is_some_and(|network| !network.policies.is_empty());
    let goal = if has_parts {
        Goal::Part(part)
    } else {
        Goal::Job
    };
    let mut operations = Operations::default();
    domain_search::within(session, (job, within), |session| {
        task_placement::place_tasks(session, &mut operations, tasks, job, goal);
    });
    let tiers = session.tx.tiers();
    let starts = operations.placed() > 0
        && (tiers.is_part_ready(job, part) || tiers.is_part_pipelined(job, part));
    let placements = starts.then(|| operations.placements(&session.tx.snapshot));
    session.tx.discard(operations);
    placements
}

/// Forgets the fit errors of a part, because they are those of another group. The errors of the other parts stay.
fn forget_errors(snapshot: &mut Snapshot, job: JobId, part: usize) {
    let tasks = &snapshot.tasks;
    let job = &mut snapshot.jobs[job];
    job.fit_errors
        .retain(|task, _| tasks[task.index()].sub_job != part);
    // A role of another part says nothing about this one.
    job.failed_roles.clear();
}

/// By part, the group of its placed tasks.
fn allocated(snapshot: &Snapshot, job: JobId) -> Vec<Option<HyperNodeId>> {
    let network = snapshot.jobs[job].network.as_ref();
    let parts = network.into_iter().flat_map(|network| &network.sub_jobs);
    parts.map(|part| part.allocated).collect()
}

fn set_allocated(snapshot: &mut Snapshot, job: JobId, groups: &[Option<HyperNodeId>]) {
    if let Some(network) = &mut snapshot.jobs[job].network {
        for (part, group) in network.sub_jobs.iter_mut().zip(groups) {
            part.allocated = *group;
        }
    }
}

/// Notes the group in which most pods of a job fit that has to be in one.
pub(super) fn record_best_domain(session: &mut Session<'_>, job: JobId) {
    let Some(choice) = domain_search::choice(session, job) else {
        return;
    };
    let words = match domain_search::most_idle_domain(session, job, &choice) {
        Some((within, fit)) => {
            let waiting = session.tx.snapshot.tasks_of(job, Status::Pending).count();
            domain_search::domain_message(session, job, within, Some((fit, waiting)))
        }
        None => domain_search::no_domain_message(&session.tx.snapshot, job),
    };
    session.tx.snapshot.jobs[job].best_domain = Some(words);
}

/// Records the group in which a job was placed.
pub(super) fn record(snapshot: &mut Snapshot, job: JobId, group: HyperNodeId) {
    if let Some(network) = &mut snapshot.jobs[job].network {
        network.allocated = snapshot.hyper_nodes.common(network.allocated, Some(group));
    }
}
