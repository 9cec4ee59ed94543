//! What preempt and reclaim have in common: who wants room, and where it could be.

use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::model::Job;
use crate::session::order::Waiting;
use crate::session::task::{Role, Status};
use hashbrown::HashMap;

/// Of each job and role, which nodes have not refused it.
#[derive(Debug, Default)]
pub(super) struct Refused(HashMap<(usize, Role), Vec<bool>>);

/// The classes of tasks of a job for which nobody could go: nobody could for others that are alike.
#[derive(Debug, Default)]
pub(super) struct Failed(Vec<usize>);

/// Jobs that lack something, by queue, and their tasks that wait.
pub(super) struct Starving {
    /// Queues with a job that was taken up, in the order in which they were met.
    pub(super) queues: Vec<usize>,
    pub(super) by_queue: Vec<Waiting>,
    pub(super) jobs: Vec<usize>,
    pub(super) tasks: Vec<Waiting>,
}

impl Session<'_> {
    /// Which of some jobs lack something (S6-112).
    pub(super) fn starving(&self, which: impl Fn(&Job) -> bool) -> Starving {
        let mut own = Starving {
            queues: Vec::new(),
            by_queue: vec![Waiting::default(); self.model.queues.len()],
            jobs: Vec::new(),
            tasks: vec![Waiting::default(); self.model.jobs.len()],
        };
        for (index, job) in self.model.live_jobs() {
            if job.is_pending() || self.invalid(index).is_some() {
                continue;
            }
            if !own.queues.contains(&job.queue) {
                own.queues.push(job.queue);
            }
            if which(job) && self.is_starving(index) {
                own.by_queue[job.queue].push(index, |one, other| self.job_before(one, other));
                own.jobs.push(index);
                own.tasks[index] = self.preemptors(index);
            }
        }
        own
    }

    /// Whether a task is like one that has failed. An attempt that failed has changed nothing, if it was undone exactly.
    pub(super) fn is_like_failed(&mut self, task: usize, failed: &Failed) -> bool {
        self.form.exact_undo
            && self.model.tasks[task].nominated.is_empty()
            && !failed.0.is_empty()
            && self
                .class_of(task)
                .is_some_and(|class| failed.0.contains(&class))
    }

    pub(super) fn note_failed(&mut self, task: usize, failed: &mut Failed) {
        if self.model.tasks[task].nominated.is_empty() {
            failed.0.extend(self.class_of(task));
        }
    }

    fn class_of(&mut self, task: usize) -> Option<usize> {
        let (judge, view) = self.asking();
        judge.class(view, task)
    }

    /// Whether a task could go for one of a queue: of the same queue, or of another one, as room is taken.
    pub(super) fn could_go(&self, taking: Taking, queue: usize, task: usize) -> bool {
        let task = &self.model.tasks[task];
        let job = &self.model.jobs[task.job];
        let which = match taking {
            Taking::Preempt => {
                matches!(task.status, Status::Bound | Status::Running) && job.queue == queue
            }
            Taking::Reclaim => {
                task.status == Status::Running
                    && job.queue != queue
                    && self.model.queues[job.queue].reclaimable
            }
        };
        which && task.preemptable && job.is_live
    }

    /// Tasks in the order of their names, in whichever they came.
    pub(super) fn by_key(&self, mut tasks: Vec<usize>) -> Vec<usize> {
        tasks.sort_unstable_by_key(|task| &self.model.tasks[*task].key);
        tasks
    }

    /// The tasks of a job that wait.
    pub(super) fn preemptors(&self, job: usize) -> Waiting {
        let mut waiting = Waiting::default();
        for task in self.model.tasks_of(job, Status::Pending) {
            if !self.model.tasks[task].gated {
                waiting.push(task, |one, other| self.task_before(one, other));
            }
        }
        waiting
    }

    /// The nodes that a task could be on if others went, in the order of their names.
    pub(super) fn reachable(&mut self, task: usize) -> Vec<usize> {
        let (judge, view) = self.asking();
        judge.reachable(view, task)
    }

    /// The same from the best to the worst.
    pub(super) fn by_score(&mut self, task: usize, nodes: Vec<usize>) -> Vec<usize> {
        let (judge, view) = self.asking();
        judge.by_score(view, task, nodes)
    }

    /// Leaves out nodes that refused a task of the same job and role before, and remembers those that refuse now.
    pub(super) fn without_refused(
        &self,
        task: usize,
        nodes: &mut Vec<usize>,
        refused: &mut Refused,
    ) {
        let own = &self.model.tasks[task];
        if own.role == 0 {
            return;
        }
        let open = refused
            .0
            .entry((own.job, own.role))
            .or_insert_with(|| vec![true; self.model.nodes.len()]);
        nodes.retain(|node| open[*node]);
        let mut left = vec![false; open.len()];
        for node in nodes.iter() {
            left[*node] = true;
        }
        *open = left;
    }
}
