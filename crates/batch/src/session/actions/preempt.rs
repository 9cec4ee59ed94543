//! Action preempt: room for jobs and tasks that come before others of the same queue (S6-112 to S6-116).

use super::starving::Refused;
use crate::compat::Difference;
use crate::session::Session;
use crate::session::dispatch::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::transaction::Operations;

impl Session<'_> {
    pub(crate) fn preempt(&mut self) {
        // Jobs with a network topology do not preempt.
        let mut starving = self.starving(|job| !job.has_topology);
        let mut queues = PriorityQueue::default();
        for queue in 0..self.snapshot.queues.len() {
            if !starving.by_queue[queue].is_empty() {
                queues.push(queue, |one, other| self.queue_before(one, other));
            }
        }
        let mut refused = Refused::default();
        while let Some(queue) = queues.pop(|one, other| self.queue_before(one, other)) {
            let waiting = &mut starving.by_queue[queue];
            while let Some(job) = waiting.pop(|one, other| self.job_before(one, other)) {
                self.preempt_between(job, &mut starving.tasks[job], &mut refused);
            }
            for job in &starving.jobs {
                if self.snapshot.jobs[*job].queue == queue {
                    self.preempt_within(*job, &mut refused);
                }
            }
        }
    }

    /// Lets tasks of a job take room from other jobs, if it has enough then.
    fn preempt_between(&mut self, job: usize, tasks: &mut PriorityQueue, refused: &mut Refused) {
        self.take_room(
            EvictionKind::Preempt,
            (job, tasks),
            |session, operations, task| session.preempt_for(operations, task, false, refused),
        );
    }

    /// Lets tasks of a job take room from others of it, until one fails.
    fn preempt_within(&mut self, job: usize, refused: &mut Refused) {
        let Some(target) = self.settled(job) else {
            return;
        };
        self.within((job, target.within), |session| {
            let mut tasks = session.preemptors(job);
            while let Some(task) = tasks.pop(|one, other| session.task_before(one, other)) {
                let mut operations = Operations::default();
                if !session.preempt_for(&mut operations, task, true, refused) {
                    session.discard(operations);
                    break;
                }
                session.commit(operations);
            }
        });
    }

    /// Whether a task may take room from others: not if it never does, and not while a node is being freed for it.
    fn may_preempt(&mut self, task_id: usize) -> bool {
        let task = &self.snapshot.tasks[task_id];
        if task.never_preempts || task.nominated.is_empty() {
            return !task.never_preempts;
        }
        let anew = self.compat.has(Difference::RecheckPlacement);
        let Some(id) = self.cluster.find_node(&task.nominated) else {
            return anew;
        };
        let (evaluator, view) = self.evaluation();
        match evaluator.refusal(view, task_id, id.index()) {
            // Filters ignore the idle amounts of a node.
            None => {
                let request = &self.snapshot.tasks[task_id].request;
                anew && !self.snapshot.nodes[id.index()].will_have(request)
            }
            Some(refusal) if refusal.unresolvable => true,
            Some(_) => {
                let priority = self.snapshot.tasks[task_id]
                    .pod
                    .as_ref()
                    .map_or(0, |pod| pod.priority);
                let mut pods = self.cluster.node(id).pods.iter();
                !pods.any(|pod| pod.priority < priority && pod.terminating && pod.preempted)
            }
        }
    }

    /// Finds room for a task on the best node where it can be had; `within` its own job or from others of its queue.
    fn preempt_for(
        &mut self,
        operations: &mut Operations,
        task_id: usize,
        within: bool,
        refused: &mut Refused,
    ) -> bool {
        let may_preempt = self.may_preempt(task_id);
        // While a node is being freed for a task, no other pod is evicted for it, but its gang may count it. After a
        // crash only some of the victims may be terminating, and room for a part of the gang is room for others.
        let may_wait = self.compat.has(Difference::FewestVictims)
            && !self.snapshot.tasks[task_id].never_preempts;
        if !may_preempt && !may_wait {
            return false;
        }
        let mut nodes = self.reachable(task_id);
        if self.caches_refusals(crate::conf::Action::Preempt) {
            self.without_refused(task_id, &mut nodes, refused);
        }
        if !within && self.fits_without_victims(operations, EvictionKind::Preempt, task_id, &nodes)
        {
            return true;
        }
        if !may_preempt {
            return false;
        }
        for node in self.by_score(task_id, nodes) {
            let task = &self.snapshot.tasks[task_id];
            let queue = self.snapshot.jobs[task.job].queue;
            let candidates = self.snapshot.nodes[node].tasks.iter().copied();
            let candidates = candidates.filter(|candidate| {
                let other = &self.snapshot.tasks[*candidate];
                self.could_go(EvictionKind::Preempt, queue, *candidate)
                    && (other.best_effort || !task.best_effort)
                    && within == (other.job == task.job)
            });
            let candidates = self.by_key(candidates.collect());
            if self.free(
                operations,
                EvictionKind::Preempt,
                (task_id, node),
                &candidates,
            ) {
                return true;
            }
        }
        false
    }
}
