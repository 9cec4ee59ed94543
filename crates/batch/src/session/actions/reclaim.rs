//! Action reclaim: a queue that has less than its share takes room back from others (S6-117, S6-118).

use super::taking::Failed;
use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::order::Waiting;
use crate::session::statement::Steps;
use crate::session::task::Status;

impl Session<'_> {
    pub(crate) fn reclaim(&mut self) {
        let mut starving = self.starving(|_| true);
        let mut queues = Waiting::default();
        for queue in &starving.queues {
            queues.push(*queue, |one, other| self.queue_before(one, other));
        }
        while let Some(queue) = queues.pop(|one, other| self.queue_before(one, other)) {
            if self.is_overused(queue) {
                continue;
            }
            let waiting = &mut starving.by_queue[queue];
            while let Some(job) = waiting.pop(|one, other| self.job_before(one, other)) {
                self.reclaim_by(queue, job, &mut starving.tasks[job]);
            }
        }
    }

    /// Lets tasks of a job take room from other queues, if it has enough then.
    fn reclaim_by(&mut self, queue: usize, job: usize, tasks: &mut Waiting) {
        let mut steps = Steps::default();
        let mut failed = Failed::default();
        while self.is_starving(job) {
            let Some(task) = tasks.pop(|one, other| self.task_before(one, other)) else {
                break;
            };
            if !self.is_like_failed(task, &failed) && !self.reclaim_for(&mut steps, queue, task) {
                self.note_failed(task, &mut failed);
            }
        }
        if self.is_pipelined(job) {
            self.commit(steps);
        } else {
            self.discard(steps);
        }
    }

    /// Finds room for a task on the first node where others can give it; whether there is any.
    fn reclaim_for(&mut self, steps: &mut Steps, queue: usize, task: usize) -> bool {
        if self.model.tasks[task].never_preempts || !self.is_preemptive(queue, task) {
            return false;
        }
        let nodes = self.reachable(task);
        if self.fits_without_victims(steps, Taking::Reclaim, task, &nodes) {
            return true;
        }
        for node in nodes {
            let candidates = self.model.nodes[node].tasks.iter().copied();
            let candidates = candidates.filter(|candidate| {
                let other = &self.model.tasks[*candidate];
                let theirs = self.model.jobs[other.job].queue;
                other.status == Status::Running
                    && other.preemptable
                    && self.model.jobs[other.job].is_live
                    && theirs != queue
                    && self.model.queues[theirs].reclaimable
            });
            let candidates = self.by_key(candidates.collect());
            if !candidates.is_empty()
                && self.free(steps, Taking::Reclaim, (task, node), &candidates)
            {
                return true;
            }
        }
        false
    }
}
