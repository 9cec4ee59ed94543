//! Action allocate: gives room to the tasks of jobs that were let in (S6-106 to S6-110).

use super::domain_placement::Which;
use crate::conf::Action;
use crate::session::Session;
use crate::session::evaluate::Turn;
use crate::session::fit::FitError;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::INQUEUE;
use crate::session::task::{Status, Task};
use crate::session::transaction::Operations;

/// Jobs that wait in each queue.
struct Line {
    queues: PriorityQueue,
    jobs: Vec<PriorityQueue>,
    /// Of each job whose turn has come, its tasks.
    tasks: Vec<Option<PriorityQueue>>,
}

impl Session<'_> {
    pub(crate) fn allocate(&mut self) {
        let mut line = self.line();
        while let Some(queue) = line.queues.pop(|one, other| self.queue_before(one, other)) {
            if self.is_overused(queue) {
                continue;
            }
            let job = line.jobs[queue].pop(|one, other| self.job_before(one, other));
            let Some(job) = job else { continue };
            let mut tasks = match line.tasks[job].take() {
                Some(tasks) => tasks,
                None => self.waiting(job),
            };
            if !tasks.is_empty() {
                self.turn(&mut line, &mut tasks, job, queue);
            }
            line.tasks[job] = Some(tasks);
            line.queues
                .push(queue, |one, other| self.queue_before(one, other));
        }
    }

    /// The jobs that allocate considers. Without action enqueue, pending jobs count as enqueued.
    fn line(&mut self) -> Line {
        let admits = self.conf.actions.contains(&Action::Enqueue);
        let queues = self.snapshot.queues.len();
        let mut line = Line {
            queues: PriorityQueue::default(),
            jobs: vec![PriorityQueue::default(); queues],
            tasks: vec![None; self.snapshot.jobs.len()],
        };
        for job in self.snapshot.live.clone() {
            if self.snapshot.jobs[job].is_pending() {
                if admits {
                    continue;
                }
                INQUEUE.clone_into(&mut self.snapshot.jobs[job].phase);
            }
            if self.invalid(job).is_some() {
                continue;
            }
            let queue = self.snapshot.jobs[job].queue;
            if line.jobs[queue].is_empty() {
                line.queues
                    .push(queue, |one, other| self.queue_before(one, other));
            }
            line.jobs[queue].push(job, |one, other| self.job_before(one, other));
        }
        line
    }

    /// The tasks of a job that wait for room.
    pub(super) fn waiting(&self, job: usize) -> PriorityQueue {
        let mut waiting = PriorityQueue::default();
        for task_id in self.snapshot.tasks_of(job, Status::Pending) {
            let task = &self.snapshot.tasks[task_id];
            if !task.gated && !task.best_effort {
                waiting.push(task_id, |one, other| self.task_before(one, other));
            }
        }
        waiting
    }

    /// A job's turn: it ends once the job has enough, or cannot have any more.
    fn turn(&mut self, line: &mut Line, tasks: &mut PriorityQueue, job: usize, queue: usize) {
        if self.snapshot.nodes.is_empty() {
            return;
        }
        let Some(target) = self.target(job, Which::All) else {
            return;
        };
        let mut operations = Operations::default();
        self.within((job, target.within), |session| {
            session.give_room(&mut operations, tasks, job, false);
            if target.within.is_some() {
                // Later others might have taken their places in the domain.
                session.fill_all(&mut operations, job);
            }
        });
        if target.suffices && self.is_ready(job) {
            self.commit(operations);
            self.starts(job);
            if !tasks.is_empty() {
                line.jobs[queue].push(job, |one, other| self.job_before(one, other));
            }
        } else if !target.suffices || !self.is_pipelined(job) {
            self.discard(operations);
        }
    }

    /// Gives room to tasks of a job until it has enough, or cannot have any more; with `all`, to all that it can. How many
    /// fitted nowhere.
    pub(super) fn give_room(
        &mut self,
        operations: &mut Operations,
        tasks: &mut PriorityQueue,
        job: usize,
        all: bool,
    ) -> usize {
        let queue = self.snapshot.jobs[job].queue;
        let mut turn = self.caches_refusals(Action::Allocate).then(Turn::default);
        let mut refused = 0;
        while let Some(task) = tasks.pop(|one, other| self.task_before(one, other)) {
            if !self.is_allocatable(queue, task) {
                continue;
            }
            if let Some(words) = self.skipped(task) {
                self.fails(task, FitError::Words(words.into()));
                refused += 1;
                continue;
            }
            match self.find_node(task, turn.as_mut()) {
                Ok(node) => self.give(operations, task, node),
                Err(error) => {
                    self.fails(task, error);
                    refused += 1;
                    if self.may_go_on(job) {
                        continue;
                    }
                    break;
                }
            }
            if !all && self.is_ready(job) {
                break;
            }
        }
        refused
    }

    /// Whether a node that refused a task of a role is asked again by others of it.
    pub(super) fn caches_refusals(&self, action: Action) -> bool {
        let arguments = self.conf.arguments_of(action);
        arguments.is_none_or(|arguments| arguments.boolean("predicateErrorCacheEnable", true))
    }

    /// The message for a task whose role has failed already.
    fn skipped(&self, task: usize) -> Option<String> {
        let task = &self.snapshot.tasks[task];
        let failed = task.role != 0
            && self.snapshot.jobs[task.job]
                .failed_roles
                .contains(&task.role);
        failed.then(|| {
            format!(
                "Task {} with role spec {} has already predicated failed, skip",
                task.name(),
                self.snapshot.roles.name(task.role)
            )
        })
    }

    /// The best node; the one that is being freed for the task, if that will do.
    fn find_node(&mut self, task_id: usize, turn: Option<&mut Turn>) -> Result<usize, FitError> {
        let (evaluator, view) = self.evaluation();
        let task = &view.snapshot.tasks[task_id];
        if !task.nominated.is_empty()
            && let Some(node) = view.cluster.find_node(&task.nominated)
            && view.snapshot.nodes[node.index()].will_have(&task.request)
            && evaluator.passes(view, task_id, node.index())
        {
            return Ok(node.index());
        }
        evaluator.choose(view, task_id, true, turn)
    }

    fn give(&mut self, operations: &mut Operations, task: usize, node: usize) {
        let request = &self.snapshot.tasks[task].request;
        if self.snapshot.nodes[node].has_idle(request) {
            self.allocate_on(operations, task, node);
        } else {
            self.pipeline_on(operations, task, node, false);
        }
    }

    /// Notes why a task fits nowhere.
    pub(super) fn fails(&mut self, task_id: usize, error: FitError) {
        let task = &self.snapshot.tasks[task_id];
        let job = &mut self.snapshot.jobs[task.job];
        job.fit_errors.insert(task_id, error);
        if !job.failed_roles.contains(&task.role) {
            job.failed_roles.push(task.role);
        }
    }

    /// Whether a job of which a task fits nowhere can still have enough (S6-108).
    fn may_go_on(&self, job_id: usize) -> bool {
        let job = &self.snapshot.jobs[job_id];
        if i32::try_from(job.tasks.len()).is_ok_and(|tasks| tasks <= job.min_member) {
            return false;
        }
        let failed = |task: &Task| job.failed_roles.contains(&task.role);
        if job.min_member < job.min_task_total {
            let pending = self.snapshot.tasks_of(job_id, Status::Pending);
            let left = pending.filter(|task| !failed(&self.snapshot.tasks[*task]));
            let left = i32::try_from(left.count()).unwrap_or(i32::MAX);
            return job.ready().saturating_add(left) >= job.min_member;
        }
        if job.min_task_member.is_empty() {
            return true;
        }
        let allocated = self.snapshot.by_role(job_id, Task::is_there);
        let mut needed = job.min_task_member.iter();
        needed.all(|(role, min)| {
            !job.failed_roles.contains(role) || allocated.get(role).copied().unwrap_or(0) >= *min
        })
    }
}
