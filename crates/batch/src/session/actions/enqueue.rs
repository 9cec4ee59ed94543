//! Action enqueue: lets jobs in, one of each queue after the other (S6-104).

use crate::session::Session;
use crate::session::model::INQUEUE;
use crate::session::order::Waiting;

impl Session<'_> {
    pub(crate) fn enqueue(&mut self) {
        let mut queues = Waiting::default();
        let mut jobs = vec![Waiting::default(); self.model.queues.len()];
        let mut seen = vec![false; self.model.queues.len()];
        for (index, job) in self.model.live_jobs() {
            if !std::mem::replace(&mut seen[job.queue], true) {
                queues.push(job.queue, |one, other| self.queue_before(one, other));
            }
            if job.is_pending() {
                jobs[job.queue].push(index, |one, other| self.job_before(one, other));
            }
        }
        let mut rooms = None;
        while let Some(queue) = queues.pop(|one, other| self.queue_before(one, other)) {
            let job = jobs[queue].pop(|one, other| self.job_before(one, other));
            let Some(job) = job else { continue };
            let need = self.model.jobs[job].min_resources.clone();
            if need.is_none_or(|need| self.is_enqueueable(job, &need))
                && self.has_place(job, &mut rooms)
            {
                self.enqueued(job);
                INQUEUE.clone_into(&mut self.model.jobs[job].phase);
            }
            queues.push(queue, |one, other| self.queue_before(one, other));
        }
    }
}
