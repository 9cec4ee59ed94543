//! Action enqueue: lets jobs in, one of each queue after the other (S6-104).

use crate::compat::Difference;
use crate::session::Session;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::INQUEUE;

impl Session<'_> {
    pub(crate) fn enqueue(&mut self) {
        let mut queues = PriorityQueue::default();
        let mut jobs = vec![PriorityQueue::default(); self.snapshot.queues.len()];
        let mut seen = vec![false; self.snapshot.queues.len()];
        for (index, job) in self.snapshot.live_jobs() {
            if !std::mem::replace(&mut seen[job.queue], true) {
                queues.push(job.queue, |one, other| self.lets_in_before(one, other));
            }
            if job.is_pending() {
                jobs[job.queue].push(index, |one, other| self.job_before(one, other));
            }
        }
        let mut free = None;
        while let Some(queue) = queues.pop(|one, other| self.lets_in_before(one, other)) {
            let job = jobs[queue].pop(|one, other| self.job_before(one, other));
            let Some(job) = job else { continue };
            let need = self.snapshot.jobs[job].min_resources.clone();
            if let Some(refused) = self.snapshot.jobs[job].refused {
                let words = format!("spec.minResources: {refused}");
                self.snapshot.jobs[job].not_enqueued_because = Some(words);
            } else if self.may_be_made(job) {
                self.snapshot.jobs[job].without_promise = true;
                INQUEUE.clone_into(&mut self.snapshot.jobs[job].phase);
            } else if need.is_none_or(|need| self.is_enqueueable(job, &need))
                && self.has_place(job, &mut free)
            {
                self.enqueued(job);
                self.promise(job);
                self.snapshot.jobs[job].without_promise = false;
                INQUEUE.clone_into(&mut self.snapshot.jobs[job].phase);
            }
            queues.push(queue, |one, other| self.lets_in_before(one, other));
        }
    }

    /// Adds the smallest gang of an enqueued job without minResources to its queue's inqueue amounts.
    fn promise(&mut self, job_id: usize) {
        let job = &self.snapshot.jobs[job_id];
        if !self.compat.has(Difference::EnqueueWhatFits) || job.min_resources.is_some() {
            return;
        }
        let queue = job.queue;
        let need = self.smallest_gang(job_id).need();
        let proportion = self
            .plugins
            .proportion
            .as_mut()
            .map(|proportion| &mut proportion.shares);
        let capacity = self
            .plugins
            .capacity
            .as_mut()
            .map(|capacity| &mut capacity.shares);
        for shares in proportion.into_iter().chain(capacity) {
            if let Some(share) = &mut shares.queues[queue] {
                share.inqueue.add(&need);
            }
        }
    }

    /// The order of queues in enqueue. Jobs that are enqueued take room from later ones, so promised amounts count as
    /// allocated. Volcano ignores them.
    fn lets_in_before(&self, one: usize, other: usize) -> bool {
        let proportion = self.plugins.proportion.as_ref();
        let shares = match (proportion, self.plugins.capacity.as_ref()) {
            (_, Some(capacity)) => Some((&capacity.shares, true)),
            (Some(capacity), None) => Some((&capacity.shares, false)),
            (None, None) => None,
        };
        let Some((shares, laid_down)) =
            shares.filter(|_| self.compat.has(Difference::EnqueueWhatFits))
        else {
            return self.queue_before(one, other);
        };
        let total = &self.snapshot.total;
        let promised = |queue| shares.promised(queue, total, laid_down);
        let priority = |queue: usize| self.snapshot.queues[queue].priority;
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
