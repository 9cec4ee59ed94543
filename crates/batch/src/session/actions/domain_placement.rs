//! In which domain of the cluster the pods of a group are tried that all have to be in one.

use super::starving::Failed;
use crate::session::Session;
use crate::session::actions::starving;
use crate::session::actions::task_placement::{self, Goal};
use crate::session::domain_search;
use crate::session::eviction_kind::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::FitError;
use crate::session::snapshot::ids::{DomainId, JobId, TaskId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::{Context, Status};
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;
use hashbrown::HashMap;
use std::cmp::Reverse;
use std::sync::Arc;

/// Where the pods of a job are tried.
#[derive(Debug, Clone, Copy)]
pub(super) struct DomainTarget {
    /// The only domain; `None` for a job without topology constraints.
    pub(super) within: Option<DomainId>,
    /// Whether all that the job needs to start fits there, now or after the pending evictions. For an unconfined job
    /// this is known only once its tasks are placed.
    pub(super) suffices: bool,
}

/// Which tasks of a job that wait are tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Which {
    All,
    /// Only best-effort tasks.
    BestEffort,
}

/// The result of trying a domain: whether the job is complete there now, whether it will be, and how many pods fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Tried {
    now: bool,
    later: bool,
    fit: usize,
}

/// The fit errors and contexts of a job and its tasks before a trial.
pub(super) struct Attempt {
    fit_errors: HashMap<TaskId, FitError>,
    failed_roles: Vec<Role>,
    last: Vec<(TaskId, Option<Context>)>,
}

/// The domain in which a job's pending tasks are tried. The first domain that fits them all is best, then one that
/// lets the job start, then the one that fits most. `None` if there is no domain; the tasks then have a fit error.
pub(super) fn target(
    session: &mut Session<'_>,
    job_id: JobId,
    which: Which,
) -> Option<DomainTarget> {
    let Some(choice) = domain_search::choice(session, job_id) else {
        return Some(DomainTarget {
            within: None,
            suffices: true,
        });
    };
    let job = &session.tx.snapshot.jobs[job_id];
    // Its running pods fix the domain, and they suffice. So the others are tried there whatever fits.
    if let ([within], true) = (&*choice, job.ready() >= job.min_member) {
        let words = domain_search::domain_message(session, job_id, *within, None);
        session.tx.snapshot.jobs[job_id].best_domain = Some(words);
        return Some(DomainTarget {
            within: Some(*within),
            suffices: true,
        });
    }
    let best = best_of(session, job_id, which, &choice).or_else(|| {
        let (now, later) = (false, false);
        let (within, fit) = domain_search::most_idle_domain(session, job_id, &choice)?;
        Some((within, Tried { now, later, fit }))
    });
    let Some((within, tried)) = best else {
        record_no_domain(&mut session.tx.snapshot, job_id);
        return None;
    };
    let waiting = session
        .tx
        .snapshot
        .tasks_of(job_id, Status::Pending)
        .count();
    let words = domain_search::domain_message(session, job_id, within, Some((tried.fit, waiting)));
    session.tx.snapshot.jobs[job_id].best_domain = Some(words);
    Some(DomainTarget {
        within: Some(within),
        suffices: tried.later,
    })
}

/// The best of these domains that could let the job start.
fn best_of(
    session: &mut Session<'_>,
    job: JobId,
    which: Which,
    choice: &[DomainId],
) -> Option<(DomainId, Tried)> {
    let most = match which {
        Which::All => domain_search::most_in(session, job, choice, None),
        Which::BestEffort => None,
    };
    let missing = missing(&session.tx.snapshot, job);
    let ask_nothing = session.tx.snapshot.jobs[job].pending_best_effort;
    let ask_nothing = usize::try_from(ask_nothing).unwrap_or(0);
    let mut best: Option<(DomainId, Tried)> = None;
    for (at, within) in choice.iter().enumerate() {
        let most = most.as_ref().map_or(usize::MAX, |most| most[at]);
        let no_better =
            best.is_some_and(|(_, best)| best.now && most.saturating_add(ask_nothing) <= best.fit);
        // A trial places every task, so domains that cannot win are skipped by their sums alone.
        if most < missing || no_better {
            continue;
        }
        let (tried, all) = try_in(session, job, which, *within);
        if best.is_none_or(|(_, best)| tried > best) {
            best = Some((*within, tried));
        }
        if all && tried.now {
            break;
        }
    }
    best
}

/// Tries all pending tasks of a job in a domain and undoes that. Returns the result, and whether no task was
/// refused.
fn try_in(
    session: &mut Session<'_>,
    job_id: JobId,
    which: Which,
    within: DomainId,
) -> (Tried, bool) {
    // A trial overwrites the errors that allocate has left.
    let attempt = attempt_of(&session.tx.snapshot, job_id);
    let mut operations = Operations::default();
    let all = domain_search::within(session, (job_id, Some(within)), |session| {
        let mut refused = 0;
        if which == Which::All {
            let mut tasks = task_placement::waiting(session.tx.tiers(), job_id);
            refused = task_placement::place_tasks(
                session,
                &mut operations,
                &mut tasks,
                job_id,
                Goal::Everything,
            );
        }
        refused + fill_all(session, &mut operations, job_id) == 0
    });
    let job = &session.tx.snapshot.jobs[job_id];
    let later = job.ready() + job.pipelined();
    let tried = Tried {
        now: job.ready() >= job.min_member,
        later: later >= job.min_member,
        fit: operations.placed(),
    };
    session.tx.discard(operations);
    // The errors of one domain must not speak for the job when another one is tried.
    restore_fit_errors(&mut session.tx.snapshot, job_id, attempt);
    (tried, all)
}

/// Places the tasks of a job that ask for nothing; how many find no node.
pub(super) fn fill_all(
    session: &mut Session<'_>,
    operations: &mut Operations,
    job: JobId,
) -> usize {
    let waiting = session.tx.snapshot.tasks_of(job, Status::Pending);
    let waiting = waiting.filter(|task| {
        let task = &session.tx.snapshot.tasks[*task];
        task.best_effort && !task.gated
    });
    let waiting: Vec<TaskId> = waiting.collect();
    let mut refused = 0;
    for task in waiting {
        let (evaluator, view) = session.evaluation();
        match evaluator.choose(view, task, false, None) {
            Ok(node) => {
                session.tx.allocate(operations, task, node);
                refused += usize::from(session.tx.vetoed(operations, task).is_some());
            }
            Err(_) => refused += 1,
        }
    }
    refused
}

/// The target for a task that asks for nothing, if all that its job needs to start is there, or fits there.
pub(super) fn target_to_fill(session: &mut Session<'_>, task: TaskId) -> Option<DomainTarget> {
    let job_id = session.tx.snapshot.tasks[task].job;
    // This was checked when some of the job's tasks were placed in this session.
    let job = &session.tx.snapshot.jobs[job_id];
    let found = job.count(Status::Allocated) + job.count(Status::Binding) > 0;
    let target = match domain_search::choice(session, job_id).as_deref() {
        Some([within]) if found => DomainTarget {
            within: Some(*within),
            suffices: true,
        },
        _ => target(session, job_id, Which::BestEffort)?,
    };
    if !target.suffices {
        let words = session.tx.snapshot.jobs[job_id].best_domain.clone();
        task_placement::record_fit_error(
            &mut session.tx.snapshot,
            task,
            FitError::Words(words.unwrap_or_default().into()),
        );
    }
    Some(target).filter(|target| target.suffices)
}

/// Gives the tasks of a job the fit error that there is no domain.
fn record_no_domain(snapshot: &mut Snapshot, job: JobId) {
    let words: Arc<str> = domain_search::no_domain_message(snapshot, job).into();
    let waiting: Vec<TaskId> = snapshot.tasks_of(job, Status::Pending).collect();
    for task in waiting {
        task_placement::record_fit_error(snapshot, task, FitError::Words(Arc::clone(&words)));
    }
}

/// Frees room for the tasks of a job by `take`, and commits if the job can start. If all its pods belong in one
/// domain, each domain is tried, most free room first. No pod is evicted before all that the job needs fits into
/// one domain.
pub(super) fn free_for_job(
    session: &mut Session<'_>,
    kind: EvictionKind,
    (job_id, tasks): (JobId, &mut PriorityQueue<TaskId>),
    mut take: impl FnMut(&mut Session<'_>, &mut Operations, TaskId) -> bool,
) {
    let Some(choice) = domain_search::choice(session, job_id) else {
        let mut operations = Operations::default();
        free_for_each(session, &mut operations, (job_id, tasks), &mut take);
        if session.tx.tiers().is_pipelined(job_id) && !is_left_to_allocate(session, &operations) {
            commit(session, operations);
        } else {
            session.tx.discard(operations);
        }
        return;
    };
    for within in domains_to_free(session, kind, job_id, choice) {
        let attempt = attempt_of(&session.tx.snapshot, job_id);
        let mut operations = Operations::default();
        domain_search::within(session, (job_id, Some(within)), |session| {
            free_for_each(
                session,
                &mut operations,
                (job_id, &mut tasks.clone()),
                &mut take,
            );
        });
        let job = &session.tx.snapshot.jobs[job_id];
        let enough = job.ready() + job.pipelined() >= job.min_member;
        if enough
            && session.tx.tiers().is_pipelined(job_id)
            && !is_left_to_allocate(session, &operations)
        {
            commit(session, operations);
            return;
        }
        session.tx.discard(operations);
        restore_fit_errors(&mut session.tx.snapshot, job_id, attempt);
    }
}

/// Whether action allocate is still to come, and can bind all of these tasks without any eviction.
pub(super) fn is_left_to_allocate(session: &Session<'_>, operations: &Operations) -> bool {
    session.tx.compat.has(Difference::LeaveToAllocate)
        && session.allocates_later
        && operations.evicted().next().is_none()
        && operations.placed_tasks().all(|task| {
            let node = session.tx.snapshot.tasks[task].node;
            node.is_some_and(|node| session.tx.snapshot.nodes[node.index()].covers_pipelined())
        })
}

/// Carries evictions out. All places of the job are nominated, because each of them may be what the others need.
fn commit(session: &mut Session<'_>, operations: Operations) {
    if session.tx.compat.has(Difference::NominatedFirst) && operations.evicted().next().is_some() {
        let tasks: Vec<TaskId> = operations.placed_tasks().collect();
        for task in tasks {
            session.tx.snapshot.tasks[task].evicts = true;
        }
    }
    session.tx.commit(operations);
}

/// Frees room for one task after the other, until the job has enough.
fn free_for_each(
    session: &mut Session<'_>,
    operations: &mut Operations,
    (job, tasks): (JobId, &mut PriorityQueue<TaskId>),
    take: &mut impl FnMut(&mut Session<'_>, &mut Operations, TaskId) -> bool,
) {
    let mut failed = Failed::default();
    while session.tx.tiers().is_starving(job) {
        let Some(task) = tasks.pop(|one, other| session.tx.tiers().task_before(one, other)) else {
            break;
        };
        if !starving::resembles_failed(session, task, &failed) && !take(session, operations, task) {
            starving::record_failed(session, task, &mut failed);
        }
    }
}

/// How many pods that ask for something a job lacks to start.
pub(super) fn missing(snapshot: &Snapshot, job: JobId) -> usize {
    let job = &snapshot.jobs[job];
    let missing = job.min_member - job.ready() - job.pipelined() - job.pending_best_effort;
    usize::try_from(missing).unwrap_or(0)
}

/// The domains that could have room after evictions, in the order in which they are tried.
fn domains_to_free(
    session: &mut Session<'_>,
    kind: EvictionKind,
    job: JobId,
    choice: Vec<DomainId>,
) -> Vec<DomainId> {
    let held = held_by_candidates(&session.tx.snapshot, kind, job);
    let (Some(now), Some(most)) = (
        domain_search::most_in(session, job, &choice, None),
        domain_search::most_in(session, job, &choice, Some(&held)),
    ) else {
        return choice;
    };
    let missing = missing(&session.tx.snapshot, job);
    let domains = choice.into_iter().zip(now.into_iter().zip(most));
    let domains = domains.filter(|(_, (_, most))| *most >= missing);
    let mut domains: Vec<(DomainId, usize)> = domains
        .map(|(within, (now, _))| (within, now.min(missing)))
        .collect();
    // A domain with more free room needs fewer victims.
    domains.sort_by_key(|(within, now)| (session.topology.tier(*within), Reverse(*now)));
    domains.into_iter().map(|(within, _)| within).collect()
}

/// The requests of all candidates for eviction by node, before plugins filter them.
fn held_by_candidates(snapshot: &Snapshot, kind: EvictionKind, job: JobId) -> Vec<Resource> {
    let queue = snapshot.jobs[job].queue;
    let nodes = snapshot.nodes.iter().map(|node| {
        let mut held = Resource::default();
        for task in &node.tasks {
            if starving::is_candidate(snapshot, kind, queue, *task)
                && snapshot.tasks[*task].job != job
            {
                held.add(&snapshot.tasks[*task].request);
            }
        }
        held
    });
    nodes.collect()
}

/// The fit errors of a job and its tasks so far.
fn attempt_of(snapshot: &Snapshot, job: JobId) -> Attempt {
    let job = &snapshot.jobs[job];
    let last = job.tasks.iter();
    let last = last.map(|task| (*task, snapshot.tasks[*task].last));
    Attempt {
        last: last.collect(),
        fit_errors: job.fit_errors.clone(),
        failed_roles: job.failed_roles.clone(),
    }
}

/// The same, and the job begins without errors.
pub(super) fn take_attempt(snapshot: &mut Snapshot, job: JobId) -> Attempt {
    let attempt = attempt_of(snapshot, job);
    let job = &mut snapshot.jobs[job];
    job.fit_errors.clear();
    job.failed_roles.clear();
    attempt
}

/// Restores the fit errors from before a trial.
pub(super) fn restore_fit_errors(snapshot: &mut Snapshot, job: JobId, attempt: Attempt) {
    let job = &mut snapshot.jobs[job];
    job.fit_errors = attempt.fit_errors;
    job.failed_roles = attempt.failed_roles;
    for (task, last) in attempt.last {
        snapshot.tasks[task].last = last;
    }
}

/// The domain that a job is in which has all that it needs to start; nothing in particular for one that may be anywhere. `None`
/// if it has not so much yet.
pub(super) fn settled(session: &mut Session<'_>, job: JobId) -> Option<DomainTarget> {
    let choice = domain_search::choice(session, job);
    let job = &session.tx.snapshot.jobs[job];
    let has_enough = job.ready() + job.pipelined() >= job.min_member;
    let within = match choice.as_deref() {
        None => None,
        Some([within]) if has_enough => Some(*within),
        Some(_) => return None,
    };
    let suffices = true;
    Some(DomainTarget { within, suffices })
}
