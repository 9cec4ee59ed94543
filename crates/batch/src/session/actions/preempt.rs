//! Action preempt: room for jobs and tasks that come before others of the same queue (S6-112 to S6-116).

use super::taking::Refused;
use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::order::Waiting;
use crate::session::statement::Steps;

impl Session<'_> {
    pub(crate) fn preempt(&mut self) {
        // Nobody goes for pods that have to be near to each other.
        let mut starving = self.starving(|job| !job.has_topology);
        let mut queues = Waiting::default();
        for queue in 0..self.model.queues.len() {
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
                if self.model.jobs[*job].queue == queue {
                    self.preempt_within(*job, &mut refused);
                }
            }
        }
    }

    /// Lets tasks of a job take room from other jobs, if it has enough then.
    fn preempt_between(&mut self, job: usize, tasks: &mut Waiting, refused: &mut Refused) {
        self.take_room(Taking::Preempt, (job, tasks), |own, steps, task| {
            own.preempt_for(steps, task, false, refused)
        });
    }

    /// Lets tasks of a job take room from others of it, until one fails.
    fn preempt_within(&mut self, job: usize, refused: &mut Refused) {
        let Some(spot) = self.settled(job) else {
            return;
        };
        self.within((job, spot.within), |own| {
            let mut tasks = own.preemptors(job);
            while let Some(task) = tasks.pop(|one, other| own.task_before(one, other)) {
                let mut steps = Steps::default();
                if !own.preempt_for(&mut steps, task, true, refused) {
                    own.discard(steps);
                    break;
                }
                own.commit(steps);
            }
        });
    }

    /// Whether a task may take room from others: not if it never does, and not while a node is being freed for it.
    fn may_preempt(&mut self, task: usize) -> bool {
        let own = &self.model.tasks[task];
        if own.never_preempts || own.nominated.is_empty() {
            return !own.never_preempts;
        }
        let anew = self.form.asks_placement;
        let Some(id) = self.cluster.find_node(&own.nominated) else {
            return anew;
        };
        let (judge, view) = self.asking();
        match judge.refusal(view, task, id.index()) {
            // Filters do not count what a node has left.
            None => {
                let request = &self.model.tasks[task].request;
                anew && !self.model.nodes[id.index()].will_have(request)
            }
            Some(refusal) if refusal.unresolvable => true,
            Some(_) => {
                let priority = self.model.tasks[task]
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
        steps: &mut Steps,
        task: usize,
        within: bool,
        refused: &mut Refused,
    ) -> bool {
        let may_preempt = self.may_preempt(task);
        // Where a node is being freed for it nobody else goes for it, but its gang lacks it no more: after a crash only some
        // of the victims may be going, and room that is freed for less than the gang is room for others.
        let may_wait = self.form.fewest_victims && !self.model.tasks[task].never_preempts;
        if !may_preempt && !may_wait {
            return false;
        }
        let mut nodes = self.reachable(task);
        if self.caches_refusals(crate::conf::Action::Preempt) {
            self.without_refused(task, &mut nodes, refused);
        }
        if !within && self.fits_without_victims(steps, Taking::Preempt, task, &nodes) {
            return true;
        }
        if !may_preempt {
            return false;
        }
        for node in self.by_score(task, nodes) {
            let own = &self.model.tasks[task];
            let queue = self.model.jobs[own.job].queue;
            let candidates = self.model.nodes[node].tasks.iter().copied();
            let candidates = candidates.filter(|candidate| {
                let other = &self.model.tasks[*candidate];
                self.could_go(Taking::Preempt, queue, *candidate)
                    && (other.best_effort || !own.best_effort)
                    && within == (other.job == own.job)
            });
            let candidates = self.by_key(candidates.collect());
            if self.free(steps, Taking::Preempt, (task, node), &candidates) {
                return true;
            }
        }
        false
    }
}
