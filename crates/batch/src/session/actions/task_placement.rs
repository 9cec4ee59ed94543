//! Placing the tasks of a job one after the other (S6-107, S6-108).

use crate::conf::Action;
use crate::session::Session;
use crate::session::evaluate::Turn;
use crate::session::plugins::Tiers;
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::FitError;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::{Status, Task, UnknownPlace};
use crate::session::transaction::Operations;
use crate::session::transaction::Transaction;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// The tasks of a job that wait for room.
pub(super) fn waiting(tiers: Tiers<'_>, job: JobId) -> PriorityQueue<TaskId> {
    let mut waiting = PriorityQueue::default();
    for task_id in tiers.snapshot.tasks_of(job, Status::Pending) {
        let task = &tiers.snapshot.tasks[task_id];
        if !task.gated && !task.best_effort {
            waiting.push(task_id, |one, other| tiers.task_before(one, other));
        }
    }
    for task_id in tiers.snapshot.tasks_of(job, Status::Pipelined) {
        if tiers.snapshot.tasks[task_id].unknown_place == UnknownPlace::Pending {
            waiting.push(task_id, |one, other| tiers.task_before(one, other));
        }
    }
    waiting
}

/// When enough tasks of a job are placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Goal {
    /// All that fit.
    Everything,
    /// The job has enough to start.
    Job,
    /// A part of it has enough.
    Part(usize),
}

/// Places tasks of a job until the goal is reached or no more fit. Returns how many fit nowhere.
pub(super) fn place_tasks(
    session: &mut Session<'_>,
    operations: &mut Operations,
    tasks: &mut PriorityQueue<TaskId>,
    job: JobId,
    goal: Goal,
) -> usize {
    begin_near(&mut session.tx.snapshot, job);
    let queue = session.tx.snapshot.jobs[job].queue;
    let mut turn = caches_refusals(session, Action::Allocate).then(Turn::default);
    let mut refused = 0;
    let mut needed = NeededRoles::of(session, job, goal);
    while let Some(task) = needed.next(session, tasks) {
        // Only this task is passed over: a smaller one of the same job may still be within the limits.
        if !reservation::is_allocatable(session, queue, task) {
            continue;
        }
        if let Some(words) = skipped(&session.tx.snapshot, task) {
            record_fit_error(
                &mut session.tx.snapshot,
                task,
                FitError::Words(words.into()),
            );
            refused += 1;
            continue;
        }
        let copies = session.tx.begin_again(task);
        let node = find_node(session, task, turn.as_mut());
        // Two places on one node are none.
        if copies && session.tx.place_again(task, node.as_ref().ok().copied()) {
            continue;
        }
        let placed = node.and_then(|node| give(&mut session.tx, operations, task, node));
        match placed {
            Ok(node) => {
                needed.placed(&session.tx.snapshot, task);
                follow_near(&mut session.tx.snapshot, task, node);
            }
            Err(error) => {
                record_fit_error(&mut session.tx.snapshot, task, error);
                refused += 1;
                // The rest of the gang is worth a try only if enough tasks of other roles are left.
                if may_go_on(&session.tx.snapshot, job, goal) {
                    continue;
                }
                break;
            }
        }
        // The gang is complete. Its other tasks wait for the next turn, so that each job starts before one grows.
        let done = match goal {
            Goal::Everything => false,
            Goal::Job => session.tx.tiers().is_ready(job),
            Goal::Part(part) => session.tx.tiers().is_part_ready(job, part),
        };
        if done {
            break;
        }
    }
    needed.put_back(session, tasks);
    refused
}

/// The roles of which a gang lacks tasks. Their tasks come first, because others could take the room without which it cannot start.
#[derive(Debug, Default)]
struct NeededRoles {
    lacking: HashMap<Role, i32>,
    /// Tasks that come after them.
    later: Vec<TaskId>,
}

impl NeededRoles {
    fn of(session: &Session<'_>, job: JobId, goal: Goal) -> Self {
        // Without plugin gang a job is ready before its roles are. Waiting for them then would never end.
        if goal != Goal::Job
            || !session.tx.compat.has(Difference::NeededRolesFirst)
            || session.tx.tiers().is_ready(job)
        {
            return Self::default();
        }
        Self {
            lacking: session.tx.snapshot.lacking_by_role(job),
            later: Vec::new(),
        }
    }

    /// The next task to place.
    fn next(&mut self, session: &Session<'_>, tasks: &mut PriorityQueue<TaskId>) -> Option<TaskId> {
        loop {
            if self.lacking.is_empty() {
                self.put_back(session, tasks);
            }
            let task = tasks.pop(|one, other| session.tx.tiers().task_before(one, other))?;
            let role = session.tx.snapshot.tasks[task].role;
            if self.lacking.is_empty() || self.lacking.contains_key(&role) {
                return Some(task);
            }
            self.later.push(task);
        }
    }

    fn placed(&mut self, snapshot: &Snapshot, task: TaskId) {
        let role = snapshot.tasks[task].role;
        if let Some(left) = self.lacking.get_mut(&role) {
            *left -= 1;
            if *left <= 0 {
                self.lacking.remove(&role);
            }
        }
    }

    fn put_back(&mut self, session: &Session<'_>, tasks: &mut PriorityQueue<TaskId>) {
        for task in self.later.drain(..) {
            tasks.push(task, |one, other| {
                session.tx.tiers().task_before(one, other)
            });
        }
    }
}

/// The tasks of each part are placed near to those that have nodes.
fn begin_near(snapshot: &mut Snapshot, job: JobId) {
    if let Some(network) = &mut snapshot.jobs[job].network {
        for part in &mut network.sub_jobs {
            part.current = part.allocated;
        }
    }
}

/// The next tasks of the part are placed near to this one, too.
fn follow_near(snapshot: &mut Snapshot, task: TaskId, node: NodeId) {
    let task = &snapshot.tasks[task];
    let (job, part) = (task.job, task.sub_job);
    let hyper_nodes = &snapshot.hyper_nodes;
    let group = hyper_nodes.lowest_of(node);
    if let Some(network) = &mut snapshot.jobs[job].network
        && let Some(part) = network.sub_jobs.get_mut(part)
        && part.nearness.is_asked()
        && group.is_some()
    {
        part.current = hyper_nodes.common(group, part.current);
    }
}

/// Whether a node that refused a task is not evaluated again for tasks of the same role.
pub(super) fn caches_refusals(session: &Session<'_>, action: Action) -> bool {
    let arguments = session.conf.arguments_of(action);
    arguments.is_none_or(|arguments| arguments.boolean("predicateErrorCacheEnable", true))
}

/// The message for a task whose role has failed already.
fn skipped(snapshot: &Snapshot, task: TaskId) -> Option<String> {
    let task = &snapshot.tasks[task];
    let failed = task.role != 0 && snapshot.jobs[task.job].failed_roles.contains(&task.role);
    failed.then(|| {
        format!(
            "Task {} with role spec {} has already predicated failed, skip",
            task.name(),
            snapshot.roles.name(task.role)
        )
    })
}

/// The best node; the one that is being freed for the task, if that will do.
pub(super) fn find_node(
    session: &mut Session<'_>,
    task_id: TaskId,
    turn: Option<&mut Turn>,
) -> Result<NodeId, FitError> {
    let (evaluator, view) = session.evaluation();
    let task = &view.snapshot.tasks[task_id];
    if !task.nominated.is_empty()
        && let Some(node) = view.cluster.find_node(&task.nominated)
        && view.snapshot.nodes[node.index()].will_have(&task.request)
        && evaluator.passes(view, task_id, node)
    {
        return Ok(node);
    }
    evaluator.choose(view, task_id, true, turn)
}

/// Puts a task on a node, unless a plugin objects.
pub(super) fn give(
    tx: &mut Transaction<'_>,
    operations: &mut Operations,
    task: TaskId,
    node: NodeId,
) -> Result<NodeId, FitError> {
    let request = &tx.snapshot.tasks[task].request;
    // Room that terminating pods still hold is promised, and the task binds in a later session.
    if tx.snapshot.nodes[node.index()].has_idle(request) {
        tx.allocate(operations, task, node);
    } else {
        tx.pipeline(operations, task, node, false);
    }
    tx.vetoed(operations, task).map_or(Ok(node), Err)
}

/// Notes why a task fits nowhere.
pub(super) fn record_fit_error(snapshot: &mut Snapshot, task_id: TaskId, error: FitError) {
    let task = &snapshot.tasks[task_id];
    let job = &mut snapshot.jobs[task.job];
    job.fit_errors.insert(task_id, error);
    if !job.failed_roles.contains(&task.role) {
        job.failed_roles.push(task.role);
    }
}

/// Whether a job can still get enough although one of its tasks fits nowhere (S6-108).
fn may_go_on(snapshot: &Snapshot, job_id: JobId, goal: Goal) -> bool {
    let job = &snapshot.jobs[job_id];
    if i32::try_from(job.tasks.len()).is_ok_and(|tasks| tasks <= job.min_member) {
        return false;
    }
    if let (Goal::Part(part), Some(network)) = (goal, &job.network) {
        let part = network.sub_jobs.get(part);
        // Every task of it is needed.
        return part.is_none_or(|part| {
            i32::try_from(part.tasks.len()).is_ok_and(|tasks| tasks > part.min_available)
        });
    }
    let failed = |task: &Task| job.failed_roles.contains(&task.role);
    if job.min_member < job.min_task_total {
        let pending = snapshot.tasks_of(job_id, Status::Pending);
        let left = pending.filter(|task| !failed(&snapshot.tasks[*task]));
        let left = i32::try_from(left.count()).unwrap_or(i32::MAX);
        return job.ready().saturating_add(left) >= job.min_member;
    }
    if job.min_task_member.is_empty() {
        return true;
    }
    let allocated = snapshot.by_role(job_id, Task::is_there);
    let mut needed = job.min_task_member.iter();
    needed.all(|(role, min)| {
        !job.failed_roles.contains(role) || allocated.get(role).copied().unwrap_or(0) >= *min
    })
}
