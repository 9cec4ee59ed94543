//! The shared parts of preempt and reclaim: which tasks starve, and where they could be placed.

use crate::session::Session;
use crate::session::evaluate::TaskKind;
use crate::session::eviction_kind::EvictionKind;
use crate::session::plugins::Tiers;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::Status;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// Of each job and role, which nodes have not refused it.
#[derive(Debug, Default)]
pub(super) struct Refused(HashMap<(JobId, Role), Vec<bool>>);

/// The kinds of a job's tasks for which no victims were found. Tasks of the same kind would fail alike.
#[derive(Debug, Default)]
pub(super) struct Failed(Vec<TaskKind>);

/// Jobs that lack something, by queue, and their tasks that wait.
pub(super) struct Starving {
    /// The queues of the considered jobs, in order.
    pub(super) queues: Vec<QueueId>,
    pub(super) by_queue: Vec<PriorityQueue<JobId>>,
    pub(super) jobs: Vec<JobId>,
    pub(super) tasks: Vec<PriorityQueue<TaskId>>,
}

/// Which of some jobs lack something (S6-112).
pub(super) fn starving(tiers: Tiers<'_>, which: impl Fn(JobId) -> bool) -> Starving {
    let mut starving = Starving {
        queues: Vec::new(),
        by_queue: vec![PriorityQueue::default(); tiers.snapshot.queues.len()],
        jobs: Vec::new(),
        tasks: vec![PriorityQueue::default(); tiers.snapshot.jobs.len()],
    };
    for (index, job) in tiers.snapshot.live_jobs() {
        if job.is_pending() || tiers.invalid(index).is_some() {
            continue;
        }
        // Reclaim also visits queues whose jobs lack nothing, because that is Volcano's order of queues.
        if !starving.queues.contains(&job.queue) {
            starving.queues.push(job.queue);
        }
        if which(index) && tiers.is_starving(index) {
            starving.by_queue[job.queue].push(index, |one, other| tiers.job_before(one, other));
            starving.jobs.push(index);
            starving.tasks[index] = preemptors(tiers, index);
        }
    }
    starving
}

/// Whether a task is like one that has failed. An attempt that failed has changed nothing, if it was undone exactly.
pub(super) fn resembles_failed(session: &mut Session<'_>, task: TaskId, failed: &Failed) -> bool {
    session.tx.compat.has(Difference::ExactUndo)
        && session.tx.snapshot.tasks[task].nominated.is_empty()
        && !failed.0.is_empty()
        && kind_of(session, task).is_some_and(|kind| failed.0.contains(&kind))
}

pub(super) fn record_failed(session: &mut Session<'_>, task: TaskId, failed: &mut Failed) {
    if session.tx.snapshot.tasks[task].nominated.is_empty() {
        failed.0.extend(kind_of(session, task));
    }
}

fn kind_of(session: &mut Session<'_>, task: TaskId) -> Option<TaskKind> {
    let (evaluator, view) = session.evaluation();
    evaluator.kind(view, task)
}

/// Whether a task is a candidate for eviction, before plugins are asked.
pub(super) fn is_candidate(
    snapshot: &Snapshot,
    kind: EvictionKind,
    queue: QueueId,
    task: TaskId,
) -> bool {
    let task = &snapshot.tasks[task];
    let job = &snapshot.jobs[task.job];
    let which = match kind {
        kind if kind.is_reclaim() => {
            task.status == Status::Running
                && job.queue != queue
                && snapshot.queues[job.queue].reclaimable
        }
        _ => matches!(task.status, Status::Bound | Status::Running) && job.queue == queue,
    };
    which && task.preemptable && job.is_live
}

/// Sorts tasks by name.
pub(super) fn by_key(snapshot: &Snapshot, mut tasks: Vec<TaskId>) -> Vec<TaskId> {
    tasks.sort_unstable_by_key(|task| &snapshot.tasks[*task].key);
    tasks
}

/// The tasks of a job that wait.
pub(super) fn preemptors(tiers: Tiers<'_>, job: JobId) -> PriorityQueue<TaskId> {
    let mut waiting = PriorityQueue::default();
    for task in tiers.snapshot.tasks_of(job, Status::Pending) {
        if !tiers.snapshot.tasks[task].gated {
            waiting.push(task, |one, other| tiers.task_before(one, other));
        }
    }
    waiting
}

/// The nodes that a task could be on if others went, in the order of their names.
pub(super) fn reachable(session: &mut Session<'_>, task: TaskId) -> Vec<NodeId> {
    let (evaluator, view) = session.evaluation();
    evaluator.reachable(view, task)
}

/// The same from the best to the worst.
pub(super) fn by_score(session: &mut Session<'_>, task: TaskId, nodes: Vec<NodeId>) -> Vec<NodeId> {
    let (evaluator, view) = session.evaluation();
    evaluator.by_score(view, task, nodes)
}

/// Removes nodes that refused a task of the same job and role before, and records those that refuse now. A node that is left
/// out because it refused the task in action allocate may take others of the role.
pub(super) fn without_refused(
    snapshot: &Snapshot,
    id: TaskId,
    nodes: &mut Vec<NodeId>,
    refused: &mut Refused,
) {
    let task = &snapshot.tasks[id];
    // Tasks without a role need not be alike, so one failure says nothing about the next.
    if task.role == 0 {
        return;
    }
    let open = refused
        .0
        .entry((task.job, task.role))
        .or_insert_with(|| vec![true; snapshot.nodes.len()]);
    nodes.retain(|node| open[node.index()]);
    let job = &snapshot.jobs[task.job];
    let before = job.fit_errors.get(&id).filter(|_| job.within.is_none());
    let mut left = vec![false; open.len()];
    if let Some(error) = before {
        for node in snapshot.node_ids() {
            left[node.index()] = open[node.index()] && error.is_unresolvable(node);
        }
    }
    for node in nodes.iter() {
        left[node.index()] = true;
    }
    *open = left;
}
