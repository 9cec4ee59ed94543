//! Action allocate: gives room to the tasks of jobs that were let in (S6-106 to S6-110).

use super::confined::Which;
use crate::conf::Action;
use crate::session::Session;
use crate::session::fit::FitError;
use crate::session::judge::Turn;
use crate::session::model::INQUEUE;
use crate::session::order::Waiting;
use crate::session::statement::Steps;
use crate::session::task::{Status, Task};

/// Jobs that wait in each queue.
struct Line {
    queues: Waiting,
    jobs: Vec<Waiting>,
    /// Of each job whose turn has come, its tasks.
    tasks: Vec<Option<Waiting>>,
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

    /// The jobs that are taken up. Where nobody lets jobs in, all are.
    fn line(&mut self) -> Line {
        let admits = self.conf.actions.contains(&Action::Enqueue);
        let queues = self.model.queues.len();
        let mut line = Line {
            queues: Waiting::default(),
            jobs: vec![Waiting::default(); queues],
            tasks: vec![None; self.model.jobs.len()],
        };
        for job in self.model.live.clone() {
            if self.model.jobs[job].is_pending() {
                if admits {
                    continue;
                }
                INQUEUE.clone_into(&mut self.model.jobs[job].phase);
            }
            if self.invalid(job).is_some() {
                continue;
            }
            let queue = self.model.jobs[job].queue;
            if line.jobs[queue].is_empty() {
                line.queues
                    .push(queue, |one, other| self.queue_before(one, other));
            }
            line.jobs[queue].push(job, |one, other| self.job_before(one, other));
        }
        line
    }

    /// The tasks of a job that wait for room.
    pub(super) fn waiting(&self, job: usize) -> Waiting {
        let mut waiting = Waiting::default();
        for task in self.model.tasks_of(job, Status::Pending) {
            let own = &self.model.tasks[task];
            if !own.gated && !own.best_effort {
                waiting.push(task, |one, other| self.task_before(one, other));
            }
        }
        waiting
    }

    /// A job's turn: it ends once the job has enough, or cannot have any more.
    fn turn(&mut self, line: &mut Line, tasks: &mut Waiting, job: usize, queue: usize) {
        if self.model.nodes.is_empty() {
            return;
        }
        let Some(spot) = self.spot(job, Which::All) else {
            return;
        };
        let mut steps = Steps::default();
        self.within((job, spot.within), |own| {
            own.give_room(&mut steps, tasks, job, false);
            if spot.within.is_some() {
                // Later others might have taken their places in the domain.
                own.fill_all(&mut steps, job);
            }
        });
        if spot.suffices && self.is_ready(job) {
            self.commit(steps);
            self.starts(job);
            if !tasks.is_empty() {
                line.jobs[queue].push(job, |one, other| self.job_before(one, other));
            }
        } else if !spot.suffices || !self.is_pipelined(job) {
            self.discard(steps);
        }
    }

    /// Gives room to tasks of a job until it has enough, or cannot have any more; with `all`, to all that it can. How many
    /// fitted nowhere.
    pub(super) fn give_room(
        &mut self,
        steps: &mut Steps,
        tasks: &mut Waiting,
        job: usize,
        all: bool,
    ) -> usize {
        let queue = self.model.jobs[job].queue;
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
                Ok(node) => self.give(steps, task, node),
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
        arguments.is_none_or(|own| own.boolean("predicateErrorCacheEnable", true))
    }

    /// What a task is told whose role has failed already.
    fn skipped(&self, task: usize) -> Option<String> {
        let own = &self.model.tasks[task];
        let failed = own.role != 0 && self.model.jobs[own.job].failed_roles.contains(&own.role);
        failed.then(|| {
            format!(
                "Task {} with role spec {} has already predicated failed, skip",
                own.name(),
                self.model.roles[own.role as usize]
            )
        })
    }

    /// The best node; the one that is being freed for the task, if that will do.
    fn find_node(&mut self, task: usize, turn: Option<&mut Turn>) -> Result<usize, FitError> {
        let (judge, view) = self.asking();
        let own = &view.model.tasks[task];
        if !own.nominated.is_empty()
            && let Some(node) = view.cluster.find_node(&own.nominated)
            && view.model.nodes[node.index()].will_have(&own.request)
            && judge.passes(view, task, node.index())
        {
            return Ok(node.index());
        }
        judge.choose(view, task, true, turn)
    }

    fn give(&mut self, steps: &mut Steps, task: usize, node: usize) {
        let request = &self.model.tasks[task].request;
        if self.model.nodes[node].has_idle(request) {
            self.allocate_on(steps, task, node);
        } else {
            self.pipeline_on(steps, task, node, false);
        }
    }

    /// Notes why a task fits nowhere.
    pub(super) fn fails(&mut self, task: usize, error: FitError) {
        let own = &self.model.tasks[task];
        let job = &mut self.model.jobs[own.job];
        job.fit_errors.insert(task, error);
        if !job.failed_roles.contains(&own.role) {
            job.failed_roles.push(own.role);
        }
    }

    /// Whether a job of which a task fits nowhere can still have enough (S6-108).
    fn may_go_on(&self, job: usize) -> bool {
        let own = &self.model.jobs[job];
        if i32::try_from(own.tasks.len()).is_ok_and(|tasks| tasks <= own.min_member) {
            return false;
        }
        let failed = |task: &Task| own.failed_roles.contains(&task.role);
        if own.min_member < own.min_task_total {
            let pending = self.model.tasks_of(job, Status::Pending);
            let left = pending.filter(|task| !failed(&self.model.tasks[*task]));
            let left = i32::try_from(left.count()).unwrap_or(i32::MAX);
            return own.ready().saturating_add(left) >= own.min_member;
        }
        if own.min_task_member.is_empty() {
            return true;
        }
        let allocated = self.model.by_role(job, Task::is_there);
        let mut needed = own.min_task_member.iter();
        needed.all(|(role, min)| {
            !own.failed_roles.contains(role) || allocated.get(role).copied().unwrap_or(0) >= *min
        })
    }
}
