//! Action backfill: places tasks that ask for nothing (S6-111).

use crate::conf::Action;
use crate::session::Session;
use crate::session::evaluate::Turn;
use crate::session::priority_queue::PriorityQueue;
use crate::session::task::Status;

impl Session<'_> {
    pub(crate) fn backfill(&mut self) {
        for task in self.best_effort() {
            let Some(target) = self.target_to_fill(task) else {
                continue;
            };
            let job = self.snapshot.tasks[task].job;
            let mut turn = self.caches_refusals(Action::Backfill).then(Turn::default);
            let node = self.within((job, target.within), |session| {
                let (evaluator, view) = session.evaluation();
                evaluator.choose(view, task, false, turn.as_mut())
            });
            match node {
                Ok(node) => self.fill(task, node),
                Err(error) => self.fails(task, error),
            }
        }
    }

    /// Tasks that ask for nothing, in the order of their queues, jobs and of themselves. Those that only had a promise
    /// are taken back first.
    fn best_effort(&mut self) -> Vec<usize> {
        let mut queues = PriorityQueue::default();
        let mut jobs = vec![PriorityQueue::default(); self.snapshot.queues.len()];
        let mut tasks = vec![PriorityQueue::default(); self.snapshot.jobs.len()];
        for job in self.snapshot.live.clone() {
            let tasks = &mut tasks[job];
            if self.snapshot.jobs[job].is_pending() || self.invalid(job).is_some() {
                continue;
            }
            // Where all of a group have to be in one domain, each keeps its place beside the others.
            let has_domain = !self.snapshot.jobs[job].topology().is_empty();
            let promised = self.snapshot.tasks_of(job, Status::Pipelined);
            let promised: Vec<usize> = promised
                .filter(|task| self.snapshot.tasks[*task].best_effort && !has_domain)
                .collect();
            for task in promised {
                self.take_off(task);
            }
            for task_id in self.snapshot.tasks_of(job, Status::Pending) {
                let task = &self.snapshot.tasks[task_id];
                if task.best_effort && !task.gated {
                    tasks.push(task_id, |one, other| self.task_before(one, other));
                }
            }
            if tasks.is_empty() {
                continue;
            }
            let queue = self.snapshot.jobs[job].queue;
            if jobs[queue].is_empty() {
                queues.push(queue, |one, other| self.queue_before(one, other));
            }
            jobs[queue].push(job, |one, other| self.job_before(one, other));
        }
        let mut all = Vec::new();
        while let Some(queue) = queues.pop(|one, other| self.queue_before(one, other)) {
            while let Some(job) = jobs[queue].pop(|one, other| self.job_before(one, other)) {
                let tasks = &mut tasks[job];
                all.extend(std::iter::from_fn(|| {
                    tasks.pop(|one, other| self.task_before(one, other))
                }));
            }
        }
        all
    }

    /// Puts a task on a node, and binds all that its job has got once it has enough.
    fn fill(&mut self, task: usize, node: usize) {
        self.put_on(task, node, Status::Allocated);
        let job = self.snapshot.tasks[task].job;
        if self.is_ready(job) {
            let allocated: Vec<usize> = self.snapshot.tasks_of(job, Status::Allocated).collect();
            for task in allocated {
                self.bind(task);
            }
        }
    }
}
