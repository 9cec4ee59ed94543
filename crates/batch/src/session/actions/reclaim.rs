//! Action reclaim: a queue that has less than its share takes room back from others (S6-117, S6-118).

use super::taking::Failed;
use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::order::Waiting;
use crate::session::statement::Steps;

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
        self.take_room(Taking::Reclaim, (job, tasks), |own, steps, tasks| {
            let mut failed = Failed::default();
            while own.is_starving(job) {
                let Some(task) = tasks.pop(|one, other| own.task_before(one, other)) else {
                    break;
                };
                if !own.is_like_failed(task, &failed) && !own.reclaim_for(steps, queue, task) {
                    own.note_failed(task, &mut failed);
                }
            }
        });
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
            let candidates =
                candidates.filter(|candidate| self.could_go(Taking::Reclaim, queue, *candidate));
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
