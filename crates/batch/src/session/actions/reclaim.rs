//! Action reclaim: a queue that has less than its share takes room back from others (S6-117, S6-118).

use crate::compat::Difference;
use crate::session::Session;
use crate::session::dispatch::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::transaction::Operations;

/// So many nodes that could be freed are compared.
const COMPARED: usize = 16;

impl Session<'_> {
    pub(crate) fn reclaim(&mut self) {
        let mut starving = self.starving(|_| true);
        let mut queues = PriorityQueue::default();
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
    fn reclaim_by(&mut self, queue: usize, job: usize, tasks: &mut PriorityQueue) {
        self.take_room(
            EvictionKind::Reclaim,
            (job, tasks),
            |session, operations, task| session.reclaim_for(operations, queue, task),
        );
    }

    /// Finds room for a task on a node where others can give it; whether there is any.
    fn reclaim_for(&mut self, operations: &mut Operations, queue: usize, task: usize) -> bool {
        if self.snapshot.tasks[task].never_preempts || !self.is_preemptive(queue, task) {
            return false;
        }
        let nodes = self.reachable(task);
        if self.fits_without_victims(operations, EvictionKind::Reclaim, task, &nodes) {
            return true;
        }
        if self.compat.has(Difference::LeastLostWork) {
            return self.reclaim_cheaply(operations, queue, task, nodes);
        }
        let mut nodes = nodes.into_iter();
        nodes.any(|node| self.reclaim_on(operations, queue, task, node))
    }

    /// Frees that one of some nodes on which the least work is lost.
    fn reclaim_cheaply(
        &mut self,
        operations: &mut Operations,
        queue: usize,
        task: usize,
        nodes: Vec<usize>,
    ) -> bool {
        let mut found: Vec<(f64, usize)> = Vec::new();
        for node in nodes {
            let mut tried = Operations::default();
            if self.reclaim_on(&mut tried, queue, task, node) {
                found.push((self.loss(tried.evicted()), node));
                self.discard(tried);
            }
            if found.len() == COMPARED {
                break;
            }
        }
        let best = found
            .into_iter()
            .min_by(|(one, _), (other, _)| one.total_cmp(other));
        best.is_some_and(|(_, node)| self.reclaim_on(operations, queue, task, node))
    }

    /// Frees a node for a task at the cost of other queues, if they can give so much there.
    fn reclaim_on(
        &mut self,
        operations: &mut Operations,
        queue: usize,
        task: usize,
        node: usize,
    ) -> bool {
        let candidates = self.snapshot.nodes[node].tasks.iter().copied();
        let candidates =
            candidates.filter(|candidate| self.could_go(EvictionKind::Reclaim, queue, *candidate));
        let candidates = self.by_key(candidates.collect());
        !candidates.is_empty()
            && self.free(operations, EvictionKind::Reclaim, (task, node), &candidates)
    }
}
