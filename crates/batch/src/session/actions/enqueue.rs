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
                queues.push(job.queue, |one, other| self.lets_in_before(one, other));
            }
            if job.is_pending() {
                jobs[job.queue].push(index, |one, other| self.job_before(one, other));
            }
        }
        let mut rooms = None;
        while let Some(queue) = queues.pop(|one, other| self.lets_in_before(one, other)) {
            let job = jobs[queue].pop(|one, other| self.job_before(one, other));
            let Some(job) = job else { continue };
            let need = self.model.jobs[job].min_resources.clone();
            if let Some(refused) = self.model.jobs[job].refused {
                let words = format!("spec.minResources: {refused}");
                self.model.jobs[job].kept_out = Some(words);
            } else if self.may_be_made(job) {
                self.model.jobs[job].without_promise = true;
                INQUEUE.clone_into(&mut self.model.jobs[job].phase);
            } else if need.is_none_or(|need| self.is_enqueueable(job, &need))
                && self.has_place(job, &mut rooms)
            {
                self.enqueued(job);
                self.promise(job);
                self.model.jobs[job].without_promise = false;
                INQUEUE.clone_into(&mut self.model.jobs[job].phase);
            }
            queues.push(queue, |one, other| self.lets_in_before(one, other));
        }
    }

    /// A job without minResources was let in: its queue was promised what its smallest gang asks for.
    fn promise(&mut self, job: usize) {
        let own = &self.model.jobs[job];
        if !self.form.admits_what_fits || own.min_resources.is_some() {
            return;
        }
        let queue = own.queue;
        let need = self.smallest_gang(job).need();
        let proportion = self.plugins.proportion.as_mut().map(|own| &mut own.shares);
        let capacity = self.plugins.capacity.as_mut().map(|own| &mut own.shares);
        for shares in proportion.into_iter().chain(capacity) {
            if let Some(own) = &mut shares.queues[queue] {
                own.inqueue.add(&need);
            }
        }
    }

    /// Whether a queue's jobs are asked before another's. Jobs that are let in take the room of others that ask later, so that
    /// what queues were promised counts as what they hold. For Volcano it does not.
    fn lets_in_before(&self, one: usize, other: usize) -> bool {
        let proportion = self.plugins.proportion.as_ref();
        let shares = match (proportion, self.plugins.capacity.as_ref()) {
            (_, Some(own)) => Some((&own.shares, true)),
            (Some(own), None) => Some((&own.shares, false)),
            (None, None) => None,
        };
        let Some((shares, laid_down)) = shares.filter(|_| self.form.admits_what_fits) else {
            return self.queue_before(one, other);
        };
        let total = &self.model.total;
        let promised = |queue| shares.promised(queue, total, laid_down);
        let priority = |queue: usize| self.model.queues[queue].priority;
        let order = priority(other).cmp(&priority(one));
        let order = order.then_with(|| promised(one).total_cmp(&promised(other)));
        order
            .then_with(|| {
                self.queue_before(other, one)
                    .cmp(&self.queue_before(one, other))
            })
            .is_lt()
    }
}
