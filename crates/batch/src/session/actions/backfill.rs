//! Action backfill: places tasks that ask for nothing (S6-111).

use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::task_placement;
use crate::session::domain_search;
use crate::session::evaluate::Turn;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::fit::FitError;
use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use evictd_placement::NodeId;

pub(crate) fn backfill(session: &mut Session<'_>) {
    for task in best_effort(session) {
        let Some(target) = domain_placement::target_to_fill(session, task) else {
            continue;
        };
        let job = session.tx.snapshot.tasks[task].job;
        let mut turn =
            task_placement::caches_refusals(session, Action::Backfill).then(Turn::default);
        let node = domain_search::within(session, (job, target.within), |session| {
            let (evaluator, view) = session.evaluation();
            evaluator.choose(view, task, false, turn.as_mut())
        });
        let filled = match node {
            Ok(node) => fill(&mut session.tx, task, node),
            Err(error) => Err(error),
        };
        if let Err(error) = filled {
            task_placement::record_fit_error(&mut session.tx.snapshot, task, error);
        }
    }
}

/// The best-effort tasks in the order of their queues, their jobs and themselves. Pipelined ones are taken off their
/// nodes first.
fn best_effort(session: &mut Session<'_>) -> Vec<TaskId> {
    let mut queues = PriorityQueue::default();
    let mut jobs = vec![PriorityQueue::default(); session.tx.snapshot.queues.len()];
    let mut tasks = vec![PriorityQueue::default(); session.tx.snapshot.jobs.len()];
    for job in session.tx.snapshot.live.clone() {
        let tasks = &mut tasks[job];
        if session.tx.snapshot.jobs[job].is_pending() || session.tx.tiers().invalid(job).is_some() {
            continue;
        }
        // In a topology domain each keeps its place beside the others.
        let has_domain = !session.tx.snapshot.jobs[job].topology().is_empty();
        let promised = session.tx.snapshot.tasks_of(job, Status::Pipelined);
        let promised: Vec<TaskId> = promised
            .filter(|task| session.tx.snapshot.tasks[*task].best_effort && !has_domain)
            .collect();
        // They need no room, so a real place is better than a promise.
        for task in promised {
            session.tx.take_off(task);
        }
        for task_id in session.tx.snapshot.tasks_of(job, Status::Pending) {
            let task = &session.tx.snapshot.tasks[task_id];
            if task.best_effort && !task.gated {
                tasks.push(task_id, |one, other| {
                    session.tx.tiers().task_before(one, other)
                });
            }
        }
        if tasks.is_empty() {
            continue;
        }
        let queue = session.tx.snapshot.jobs[job].queue;
        if jobs[queue].is_empty() {
            queues.push(queue, |one, other| {
                session.tx.tiers().queue_before(one, other)
            });
        }
        jobs[queue].push(job, |one, other| session.tx.tiers().job_before(one, other));
    }
    let mut all = Vec::new();
    while let Some(queue) = queues.pop(|one, other| session.tx.tiers().queue_before(one, other)) {
        while let Some(job) =
            jobs[queue].pop(|one, other| session.tx.tiers().job_before(one, other))
        {
            let tasks = &mut tasks[job];
            all.extend(std::iter::from_fn(|| {
                tasks.pop(|one, other| session.tx.tiers().task_before(one, other))
            }));
        }
    }
    all
}

/// Puts a task on a node, unless a plugin objects. Binds the allocated tasks of its job once these are enough.
fn fill(tx: &mut Transaction<'_>, task: TaskId, node: NodeId) -> Result<(), FitError> {
    tx.put_on(task, node, Status::Allocated);
    if let Some(objection) = tx.plugins.veto(task) {
        let error = FitError::Words(objection.into());
        tx.take_off(task);
        return Err(error);
    }
    let job = tx.snapshot.tasks[task].job;
    // The other actions may have allocated a part of the gang that waited for these tasks.
    if tx.tiers().is_ready(job) {
        let allocated: Vec<TaskId> = tx.snapshot.tasks_of(job, Status::Allocated).collect();
        for task in allocated {
            tx.bind(task);
        }
    }
    Ok(())
}
