//! Action backfill: places tasks that ask for nothing (S6-111).

use crate::conf::Action;
use crate::session::Session;
use crate::session::judge::Turn;
use crate::session::order::Waiting;
use crate::session::task::Status;

impl Session<'_> {
    pub(crate) fn backfill(&mut self) {
        for task in self.best_effort() {
            let Some(spot) = self.spot_to_fill(task) else {
                continue;
            };
            let job = self.model.tasks[task].job;
            let mut turn = self.caches_refusals(Action::Backfill).then(Turn::default);
            let node = self.within((job, spot.within), |own| {
                let (judge, view) = own.asking();
                judge.choose(view, task, false, turn.as_mut())
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
        let mut queues = Waiting::default();
        let mut jobs = vec![Waiting::default(); self.model.queues.len()];
        let mut tasks = vec![Waiting::default(); self.model.jobs.len()];
        for job in self.model.live.clone() {
            let tasks = &mut tasks[job];
            if self.model.jobs[job].is_pending() || self.invalid(job).is_some() {
                continue;
            }
            // Where all of a group have to be in one domain, each keeps its place beside the others.
            let confined = !self.model.jobs[job].topology().is_empty();
            let promised = self.model.tasks_of(job, Status::Pipelined);
            let promised: Vec<usize> = promised
                .filter(|task| self.model.tasks[*task].best_effort && !confined)
                .collect();
            for task in promised {
                self.take_off(task);
            }
            for task in self.model.tasks_of(job, Status::Pending) {
                let own = &self.model.tasks[task];
                if own.best_effort && !own.gated {
                    tasks.push(task, |one, other| self.task_before(one, other));
                }
            }
            if tasks.is_empty() {
                continue;
            }
            let queue = self.model.jobs[job].queue;
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
        let job = self.model.tasks[task].job;
        if self.is_ready(job) {
            let allocated: Vec<usize> = self.model.tasks_of(job, Status::Allocated).collect();
            for task in allocated {
                self.bind(task);
            }
        }
    }
}
