//! Action preempt: room for jobs and tasks that come before others of the same queue (S6-112 to S6-116).

use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::statement::Steps;
use crate::session::task::{Status, Task};

impl Session<'_> {
    pub(crate) fn preempt(&mut self) {
        let mut starving = self.starving();
        let jobs = std::mem::take(&mut starving.jobs);
        for queue in starving.queues {
            let waiting = &mut starving.by_queue[queue];
            while let Some(job) = waiting.pop(|one, other| self.job_before(one, other)) {
                let mut steps = Steps::default();
                let mut assigned = false;
                while self.is_starving(job) {
                    let tasks = &mut starving.tasks[job];
                    let task = tasks.pop(|one, other| self.task_before(one, other));
                    let Some(task) = task else { break };
                    assigned = self.preempt_for(&mut steps, task, false);
                }
                if !self.is_pipelined(job) {
                    self.discard(steps);
                    continue;
                }
                self.commit(steps);
                if assigned {
                    waiting.push(job, |one, other| self.job_before(one, other));
                }
            }
            for job in &jobs {
                self.preempt_within(*job);
            }
        }
    }

    /// Lets tasks of a job take room from others of it, until one fails.
    fn preempt_within(&mut self, job: usize) {
        let mut tasks = self.preemptors(job);
        while let Some(task) = tasks.pop(|one, other| self.task_before(one, other)) {
            let mut steps = Steps::default();
            if !self.preempt_for(&mut steps, task, true) {
                self.discard(steps);
                break;
            }
            self.commit(steps);
        }
    }

    /// Finds room for a task on the best node where it can be had; `within` its own job or from others of its queue.
    fn preempt_for(&mut self, steps: &mut Steps, task: usize, within: bool) -> bool {
        if self.model.tasks[task].never_preempts {
            return false;
        }
        for node in self.reachable(task, true) {
            let own = &self.model.tasks[task];
            let queue = self.model.jobs[own.job].queue;
            let candidates = self.model.nodes[node].tasks.iter().copied();
            let candidates = candidates.filter(|candidate| {
                let other: &Task = &self.model.tasks[*candidate];
                let same = other.job == own.job;
                let here = self.model.jobs[other.job].queue == queue;
                matches!(other.status, Status::Bound | Status::Running)
                    && other.preemptable
                    && (other.best_effort || !own.best_effort)
                    && if within { same } else { here && !same }
            });
            let candidates: Vec<usize> = candidates.collect();
            if self.free(steps, Taking::Preempt, (task, node), &candidates) {
                return true;
            }
        }
        false
    }
}
