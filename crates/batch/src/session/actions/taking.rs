//! What preempt and reclaim have in common: who wants room, and freeing it on one node.

use crate::session::Session;
use crate::session::dispatch::Taking;
use crate::session::order::Waiting;
use crate::session::resource::Unnamed;
use crate::session::statement::Steps;
use crate::session::task::{Role, Status};
use hashbrown::HashMap;

/// Of each job and role, which nodes have not refused it.
#[derive(Debug, Default)]
pub(super) struct Refused(HashMap<(usize, Role), Vec<bool>>);

/// Jobs that lack something, by queue, and their tasks that wait.
pub(super) struct Starving {
    /// Queues with a job that was taken up, in the order in which they were met.
    pub(super) queues: Vec<usize>,
    pub(super) by_queue: Vec<Waiting>,
    pub(super) jobs: Vec<usize>,
    pub(super) tasks: Vec<Waiting>,
}

impl Session<'_> {
    /// Who lacks something (S6-112).
    pub(super) fn starving(&self) -> Starving {
        let mut own = Starving {
            queues: Vec::new(),
            by_queue: vec![Waiting::default(); self.model.queues.len()],
            jobs: Vec::new(),
            tasks: vec![Waiting::default(); self.model.jobs.len()],
        };
        for (index, job) in self.model.jobs.iter().enumerate() {
            if job.is_pending() || self.invalid(index).is_some() {
                continue;
            }
            if !own.queues.contains(&job.queue) {
                own.queues.push(job.queue);
            }
            if self.is_starving(index) {
                own.by_queue[job.queue].push(index, |one, other| self.job_before(one, other));
                own.jobs.push(index);
                own.tasks[index] = self.preemptors(index);
            }
        }
        own
    }

    /// The tasks of a job that wait.
    pub(super) fn preemptors(&self, job: usize) -> Waiting {
        let mut waiting = Waiting::default();
        for task in self.model.tasks_of(job, Status::Pending) {
            if !self.model.tasks[task].gated {
                waiting.push(task, |one, other| self.task_before(one, other));
            }
        }
        waiting
    }

    /// The nodes that a task could be on if others went, in the order of their names.
    pub(super) fn reachable(&mut self, task: usize) -> Vec<usize> {
        let (judge, view) = self.asking();
        judge.reachable(view, task)
    }

    /// The same from the best to the worst.
    pub(super) fn by_score(&mut self, task: usize, nodes: Vec<usize>) -> Vec<usize> {
        let (judge, view) = self.asking();
        judge.by_score(view, task, nodes)
    }

    /// Leaves out nodes that refused a task of the same job and role before, and remembers those that refuse now.
    pub(super) fn without_refused(
        &self,
        task: usize,
        nodes: &mut Vec<usize>,
        refused: &mut Refused,
    ) {
        let own = &self.model.tasks[task];
        if own.role == 0 {
            return;
        }
        let open = refused
            .0
            .entry((own.job, own.role))
            .or_insert_with(|| vec![true; self.model.nodes.len()]);
        nodes.retain(|node| open[*node]);
        let mut left = vec![false; open.len()];
        for node in nodes.iter() {
            left[*node] = true;
        }
        *open = left;
    }

    /// Whether a task could be on a node if all of these went.
    fn suffices(&self, task: usize, node: usize, victims: &[usize]) -> bool {
        let mut idle = self.model.nodes[node].future_idle();
        for victim in victims {
            idle.add(&self.model.tasks[*victim].request);
        }
        self.model.tasks[task].request.within(&idle, Unnamed::Zero)
    }

    /// Frees a node for a task: of those who may go one after the other goes until it fits. Whether it does; if not,
    /// nobody goes.
    pub(super) fn free(
        &mut self,
        steps: &mut Steps,
        taking: Taking,
        (task, node): (usize, usize),
        candidates: &[usize],
    ) -> bool {
        let victims = self.granted(taking, task, candidates);
        if !self.suffices(task, node, &victims) {
            return false;
        }
        let before = self.coupled_passes(task, node);
        let mut own = Steps::default();
        let mut evicts = false;
        let mut victims = self.victims_in_order(victims).into_iter();
        loop {
            if self.fits_now(taking, (task, node), before) {
                self.pipeline_on(&mut own, task, node, evicts);
                steps.append(own);
                return true;
            }
            let Some(victim) = victims.next() else {
                break;
            };
            evicts |= taking == Taking::Reclaim || !self.model.tasks[victim].request.is_empty();
            self.evict(&mut own, victim, taking.as_str());
        }
        self.discard(own);
        false
    }

    /// Whether a task fits on a node now that some have gone. `before` tells whether the filters that look beyond a node
    /// let it pass before anybody went: they are not asked again.
    fn fits_now(&mut self, taking: Taking, (task, node): (usize, usize), before: bool) -> bool {
        let own = &self.model.tasks[task];
        let room = self.model.nodes[node].will_have(&own.request);
        if taking == Taking::Reclaim {
            return room;
        }
        let queue = self.model.jobs[own.job].queue;
        if !room || !self.is_allocatable(queue, task) {
            return false;
        }
        let (judge, view) = self.asking();
        before && judge.passes_apart(view, task, node)
    }

    /// Whether the filters that look beyond a node let a task pass.
    fn coupled_passes(&mut self, task: usize, node: usize) -> bool {
        let (judge, view) = self.asking();
        judge.passes_coupled(view, task, node)
    }
}
