//! Action allocate: places the tasks of enqueued jobs (S6-106 to S6-110).

use super::domain_placement::Which;
use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::group_placement::{self, PendingParts};
use crate::session::actions::hardest_first;
use crate::session::actions::task_placement::{self, Goal};
use crate::session::domain_search;
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::{Freed, Job};
use crate::session::transaction::Operations;
use evictd_batch_objects::{Difference, PodGroupPhase};
use hashbrown::HashMap;

/// Jobs that wait in each queue.
struct Line {
    queues: PriorityQueue<QueueId>,
    jobs: Vec<PriorityQueue<JobId>>,
    /// By job, its pending tasks, once it was tried.
    tasks: Vec<Option<PriorityQueue<TaskId>>>,
    /// The pending tasks of jobs that are placed part by part, once they were tried.
    pending: HashMap<JobId, PendingParts>,
    /// The jobs for which nodes were freed.
    nominated: Vec<JobId>,
}

pub(crate) fn allocate(session: &mut Session<'_>) {
    let mut line = line(session, |_| true);
    place_nominated(session, &mut line);
    while let Some(queue) = line
        .queues
        .pop(|one, other| session.tx.tiers().queue_before(one, other))
    {
        // The queue is not pushed back: nothing in this action lowers its share again.
        if session.tx.tiers().is_overused(queue) {
            continue;
        }
        let job = line.jobs[queue].pop(|one, other| session.tx.tiers().job_before(one, other));
        let Some(job) = job else { continue };
        if session.tx.snapshot.jobs[job].is_placed_by_groups() {
            turn_by_groups(session, &mut line, job, queue);
            if !session.is_fifo(queue) || session.tx.tiers().is_ready(job) {
                line.queues.push(queue, |one, other| {
                    session.tx.tiers().queue_before(one, other)
                });
            }
            continue;
        }
        // A job has several turns. Its tasks keep their order, and those that failed are not tried again.
        let mut tasks = match line.tasks[job].take() {
            Some(tasks) => tasks,
            None => task_placement::waiting(session.tx.tiers(), job),
        };
        if !tasks.is_empty() {
            turn(session, &mut line, &mut tasks, job, queue);
            // A job that runs in part has started, so that it holds up no other.
            if session.is_fifo(queue) && !session.tx.tiers().is_ready(job) {
                continue;
            }
        }
        // The queue goes behind the others after each job, because its share may have grown.
        line.tasks[job] = Some(tasks);
        line.queues.push(queue, |one, other| {
            session.tx.tiers().queue_before(one, other)
        });
    }
}

/// Places the jobs for which room was made. It runs before an action that evicts, which would count on that room for others.
pub(crate) fn allocate_nominated(session: &mut Session<'_>) {
    if !session.tx.compat.has(Difference::NominatedFirst) {
        return;
    }
    let mut line = line(session, |job| job.freed != Freed::None);
    place_nominated(session, &mut line);
}

/// Places the jobs for which nodes were freed, before any other job takes that room.
fn place_nominated(session: &mut Session<'_>, line: &mut Line) {
    if !session.tx.compat.has(Difference::NominatedFirst) {
        return;
    }
    let mut nominated = PriorityQueue::default();
    for job in std::mem::take(&mut line.nominated) {
        nominated.push(job, |one, other| session.tx.tiers().job_before(one, other));
    }
    while let Some(job) = nominated.pop(|one, other| session.tx.tiers().job_before(one, other)) {
        let queue = session.tx.snapshot.jobs[job].queue;
        if session.tx.tiers().is_overused(queue) {
            continue;
        }
        if session.tx.snapshot.jobs[job].is_placed_by_groups() {
            turn_by_groups(session, line, job, queue);
            continue;
        }
        let mut tasks = task_placement::waiting(session.tx.tiers(), job);
        if tasks.is_empty() {
            continue;
        }
        turn(session, line, &mut tasks, job, queue);
        if !session.tx.tiers().is_ready(job) {
            // It has had its turn: either it holds its places in this session, or they are gone.
            tasks = PriorityQueue::default();
        }
        line.tasks[job] = Some(tasks);
    }
}

/// Those of some jobs that allocate considers. Without action enqueue, pending jobs count as enqueued.
fn line(session: &mut Session<'_>, which: impl Fn(&Job) -> bool) -> Line {
    let admits = session.conf.actions.contains(&Action::Enqueue);
    let queues = session.tx.snapshot.queues.len();
    let mut line = Line {
        queues: PriorityQueue::default(),
        jobs: vec![PriorityQueue::default(); queues],
        tasks: vec![None; session.tx.snapshot.jobs.len()],
        pending: HashMap::new(),
        nominated: Vec::new(),
    };
    for job in session.tx.snapshot.live.clone() {
        if !which(&session.tx.snapshot.jobs[job]) {
            continue;
        }
        if session.tx.snapshot.jobs[job].is_pending() {
            if admits {
                continue;
            }
            session.tx.snapshot.jobs[job].phase = PodGroupPhase::Inqueue;
        }
        // A gang without enough pods would hold room that it cannot use.
        if session.tx.tiers().invalid(job).is_some() {
            continue;
        }
        // Without a tree nothing is known about distances.
        if !session.tx.snapshot.hyper_nodes.ready && session.tx.snapshot.jobs[job].has_topology() {
            continue;
        }
        let queue = session.tx.snapshot.jobs[job].queue;
        if line.jobs[queue].is_empty() {
            line.queues.push(queue, |one, other| {
                session.tx.tiers().queue_before(one, other)
            });
        }
        line.jobs[queue].push(job, |one, other| session.tx.tiers().job_before(one, other));
        if session.tx.snapshot.jobs[job].freed != Freed::None {
            line.nominated.push(job);
        }
    }
    line
}

/// The turn of a job that is placed part by part or within groups of near nodes.
fn turn_by_groups(session: &mut Session<'_>, line: &mut Line, job: JobId, queue: QueueId) {
    let mut pending = match line.pending.remove(&job) {
        Some(pending) => pending,
        None => PendingParts::of(session.tx.tiers(), job),
    };
    if pending.is_empty() || session.tx.snapshot.nodes.is_empty() {
        return;
    }
    let Some((operations, group)) = group_placement::place(session, job, &mut pending) else {
        group_placement::record_best_domain(session, job);
        return;
    };
    // A job that will be complete after pending evictions keeps its places for this session.
    if session.tx.tiers().is_ready(job) {
        session.tx.commit(operations);
        group_placement::record(&mut session.tx.snapshot, job, group);
        reservation::starts(session, job);
        if !pending.is_empty() {
            line.jobs[queue].push(job, |one, other| session.tx.tiers().job_before(one, other));
        }
        line.pending.insert(job, pending);
    }
}

/// A job's turn: it ends once the job has enough, or cannot have any more.
fn turn(
    session: &mut Session<'_>,
    line: &mut Line,
    tasks: &mut PriorityQueue<TaskId>,
    job: JobId,
    queue: QueueId,
) {
    if session.tx.snapshot.nodes.is_empty() {
        return;
    }
    let Some(target) = domain_placement::target(session, job, Which::All) else {
        return;
    };
    let mut operations = Operations::default();
    domain_search::within(session, (job, target.within), |session| {
        task_placement::place_tasks(session, &mut operations, tasks, job, Goal::Job);
        if target.within.is_some() {
            // Otherwise other jobs might take their room in the domain.
            domain_placement::fill_all(session, &mut operations, job);
        }
    });
    if target.within.is_none() {
        hardest_first::try_again(session, &mut operations, tasks, job);
    }
    // A gang starts as a whole. One that will be complete after pending evictions keeps its places for this session.
    // Anything less gives its room back to the next job.
    if target.suffices && session.tx.tiers().is_ready(job) {
        session.tx.commit(operations);
        reservation::starts(session, job);
        if !tasks.is_empty() {
            line.jobs[queue].push(job, |one, other| session.tx.tiers().job_before(one, other));
        }
    } else if !target.suffices
        || !(session.tx.tiers().is_pipelined(job) || session.tx.tiers().has_unknown_places(job))
    {
        session.tx.discard(operations);
    }
}
