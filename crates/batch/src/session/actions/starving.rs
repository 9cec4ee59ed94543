//! The shared parts of preempt and reclaim: which tasks starve, and where they could be placed.

use crate::compat::Difference;
use crate::session::Session;
use crate::session::dispatch::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::roles::Role;
use crate::session::snapshot::Job;
use crate::session::task::Status;
use hashbrown::HashMap;

/// Of each job and role, which nodes have not refused it.
#[derive(Debug, Default)]
pub(super) struct Refused(HashMap<(usize, Role), Vec<bool>>);

/// The equivalence classes of a job's tasks for which no victims were found. Tasks of the same class would fail alike.
#[derive(Debug, Default)]
pub(super) struct Failed(Vec<usize>);

/// Jobs that lack something, by queue, and their tasks that wait.
pub(super) struct Starving {
    /// Queues with a job that was taken up, in the order in which they were met.
    pub(super) queues: Vec<usize>,
    pub(super) by_queue: Vec<PriorityQueue>,
    pub(super) jobs: Vec<usize>,
    pub(super) tasks: Vec<PriorityQueue>,
}

impl Session<'_> {
    /// Which of some jobs lack something (S6-112).
    pub(super) fn starving(&self, which: impl Fn(&Job) -> bool) -> Starving {
        let mut starving = Starving {
            queues: Vec::new(),
            by_queue: vec![PriorityQueue::default(); self.snapshot.queues.len()],
            jobs: Vec::new(),
            tasks: vec![PriorityQueue::default(); self.snapshot.jobs.len()],
        };
        for (index, job) in self.snapshot.live_jobs() {
            if job.is_pending() || self.invalid(index).is_some() {
                continue;
            }
            if !starving.queues.contains(&job.queue) {
                starving.queues.push(job.queue);
            }
            if which(job) && self.is_starving(index) {
                starving.by_queue[job.queue].push(index, |one, other| self.job_before(one, other));
                starving.jobs.push(index);
                starving.tasks[index] = self.preemptors(index);
            }
        }
        starving
    }

    /// Whether a task is like one that has failed. An attempt that failed has changed nothing, if it was undone exactly.
    pub(super) fn is_like_failed(&mut self, task: usize, failed: &Failed) -> bool {
        self.compat.has(Difference::ExactUndo)
            && self.snapshot.tasks[task].nominated.is_empty()
            && !failed.0.is_empty()
            && self
                .class_of(task)
                .is_some_and(|class| failed.0.contains(&class))
    }

    pub(super) fn note_failed(&mut self, task: usize, failed: &mut Failed) {
        if self.snapshot.tasks[task].nominated.is_empty() {
            failed.0.extend(self.class_of(task));
        }
    }

    fn class_of(&mut self, task: usize) -> Option<usize> {
        let (evaluator, view) = self.evaluation();
        evaluator.class(view, task)
    }

    /// Whether a task could go for one of a queue: of the same queue, or of another one, as room is taken.
    pub(super) fn could_go(&self, kind: EvictionKind, queue: usize, task: usize) -> bool {
        let task = &self.snapshot.tasks[task];
        let job = &self.snapshot.jobs[task.job];
        let which = match kind {
            EvictionKind::Preempt => {
                matches!(task.status, Status::Bound | Status::Running) && job.queue == queue
            }
            EvictionKind::Reclaim => {
                task.status == Status::Running
                    && job.queue != queue
                    && self.snapshot.queues[job.queue].reclaimable
            }
        };
        which && task.preemptable && job.is_live
    }

    /// Tasks in the order of their names, in whichever they came.
    pub(super) fn by_key(&self, mut tasks: Vec<usize>) -> Vec<usize> {
        tasks.sort_unstable_by_key(|task| &self.snapshot.tasks[*task].key);
        tasks
    }

    /// The tasks of a job that wait.
    pub(super) fn preemptors(&self, job: usize) -> PriorityQueue {
        let mut waiting = PriorityQueue::default();
        for task in self.snapshot.tasks_of(job, Status::Pending) {
            if !self.snapshot.tasks[task].gated {
                waiting.push(task, |one, other| self.task_before(one, other));
            }
        }
        waiting
    }

    /// The nodes that a task could be on if others went, in the order of their names.
    pub(super) fn reachable(&mut self, task: usize) -> Vec<usize> {
        let (evaluator, view) = self.evaluation();
        evaluator.reachable(view, task)
    }

    /// The same from the best to the worst.
    pub(super) fn by_score(&mut self, task: usize, nodes: Vec<usize>) -> Vec<usize> {
        let (evaluator, view) = self.evaluation();
        evaluator.by_score(view, task, nodes)
    }

    /// Leaves out nodes that refused a task of the same job and role before, and remembers those that refuse now.
    pub(super) fn without_refused(
        &self,
        task: usize,
        nodes: &mut Vec<usize>,
        refused: &mut Refused,
    ) {
        let task = &self.snapshot.tasks[task];
        if task.role == 0 {
            return;
        }
        let open = refused
            .0
            .entry((task.job, task.role))
            .or_insert_with(|| vec![true; self.snapshot.nodes.len()]);
        nodes.retain(|node| open[*node]);
        let mut left = vec![false; open.len()];
        for node in nodes.iter() {
            left[*node] = true;
        }
        *open = left;
    }
}
