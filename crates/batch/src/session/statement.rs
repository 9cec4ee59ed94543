//! What is done for a job for the time being: kept and carried out, or undone in reverse order (S6-103).
//!
//! The cluster's own statement records one stretch of placements and removals that is undone at its end as a whole. A
//! session nests: a try on one node within a try for one job within what other jobs already got. So the session has one
//! statement of the cluster from its beginning to its end, and these lists say which of its steps to take back.

use super::Session;
use super::model::Model;
use super::task::{Context, Status};
use evictd_placement::NodeId;

#[derive(Debug, Clone, Copy)]
enum Step {
    /// It got a node.
    Allocate,
    /// It gets one once others have gone.
    Pipeline,
    /// It has to go; what it was before.
    Evict(Status, &'static str),
}

/// Steps that belong together.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Steps(Vec<(usize, Step)>);

impl Steps {
    /// How many tasks got a node, or get one.
    pub(crate) fn placed(&self) -> usize {
        let steps = self.0.iter();
        steps
            .filter(|(_, step)| matches!(step, Step::Allocate | Step::Pipeline))
            .count()
    }

    /// The tasks that are sent away.
    pub(crate) fn evicted(&self) -> impl Iterator<Item = usize> {
        let steps = self.0.iter();
        let evicted = steps.filter(|(_, step)| matches!(step, Step::Evict(..)));
        evicted.map(|(task, _)| *task)
    }

    /// Takes over what another list holds.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Session<'_> {
    /// Gives a task room on a node.
    pub(crate) fn allocate_on(&mut self, steps: &mut Steps, task: usize, node: usize) {
        self.put_on(task, node, Status::Allocated);
        steps.0.push((task, Step::Allocate));
    }

    /// Promises a task a node that will have room; `evicts` says whether somebody has to go for it.
    pub(crate) fn pipeline_on(
        &mut self,
        steps: &mut Steps,
        task: usize,
        node: usize,
        evicts: bool,
    ) {
        self.model.tasks[task].evicts = evicts;
        self.put_on(task, node, Status::Pipelined);
        steps.0.push((task, Step::Pipeline));
    }

    /// Sends a task away.
    pub(crate) fn evict(&mut self, steps: &mut Steps, task: usize, why: &'static str) {
        let before = self.model.tasks[task].status;
        self.touched.push((task, before));
        self.change_on_node(task, Status::Releasing);
        let own = &mut self.model.tasks[task];
        if let Some(node) = own.node {
            if let Some(number) = own.removed {
                self.placement.remove_again(self.cluster, number);
            } else {
                let id = NodeId::of(node);
                let mut pods = self.cluster.node(id).pods.iter();
                let at = pods.position(|pod| {
                    if own.uid.is_empty() {
                        self.cluster.full_name(pod) == *own.key
                    } else {
                        pod.uid() == &*own.uid
                    }
                });
                own.removed = at.map(|at| self.placement.remove(self.cluster, id, at));
            }
            self.log.push(node);
        }
        self.plugins.deallocated(&self.model, task);
        steps.0.push((task, Step::Evict(before, why)));
    }

    /// Puts a task on a node without a list to take it back by.
    pub(crate) fn put_on(&mut self, task: usize, node: usize, status: Status) {
        self.touched.push((task, Status::Pending));
        self.model.set_status(task, status);
        let own = &mut self.model.tasks[task];
        own.node = Some(node);
        let on = &mut self.model.nodes[node];
        on.put(&own.request, status);
        on.tasks.push(task);
        if let Some(pod) = own.pod.take() {
            let number = self.placement.place(self.cluster, pod, NodeId::of(node));
            own.placed = Some(number);
        }
        self.log.push(node);
        self.plugins.allocated(&self.model, task);
    }

    /// Takes a task off its node again, so that it waits.
    pub(crate) fn take_off(&mut self, task: usize) {
        let status = self.model.tasks[task].status;
        self.model.set_status(task, Status::Pending);
        let own = &mut self.model.tasks[task];
        own.evicts = false;
        if let Some(node) = own.node.take() {
            let on = &mut self.model.nodes[node];
            on.take(&own.request, status);
            on.tasks.retain(|other| *other != task);
            self.log.push(node);
        }
        if let Some(number) = own.placed.take() {
            own.pod = self.placement.take_back(self.cluster, number);
        }
        self.plugins.deallocated(&self.model, task);
    }

    fn change_on_node(&mut self, task: usize, status: Status) {
        let before = self.model.tasks[task].status;
        self.model.set_status(task, status);
        let own = &self.model.tasks[task];
        if let Some(node) = own.node {
            let on = &mut self.model.nodes[node];
            on.take(&own.request, before);
            on.put(&own.request, status);
        }
    }

    /// Undoes the steps, the last first. Tasks remember where they stood.
    pub(crate) fn discard(&mut self, steps: Steps) {
        for (task, step) in steps.0.into_iter().rev() {
            let own = &mut self.model.tasks[task];
            own.last = Some(Context {
                status: own.status,
                node: own.node,
                evicts: own.evicts,
            });
            match step {
                Step::Allocate | Step::Pipeline => self.take_off(task),
                Step::Evict(before, _) => self.stay(task, before),
            }
        }
    }

    /// A task that was to go stays.
    fn stay(&mut self, task: usize, before: Status) {
        let status = if self.form.exact_undo {
            before
        } else {
            Status::Running
        };
        self.change_on_node(task, status);
        let own = &self.model.tasks[task];
        if let Some(number) = own.removed {
            self.placement.put_back(self.cluster, number);
        }
        self.log.extend(own.node);
        self.plugins.allocated(&self.model, task);
    }

    /// Undoes the step that sends a task away.
    pub(crate) fn take_back(&mut self, steps: &mut Steps, task: usize) {
        let at = steps
            .0
            .iter()
            .rposition(|(own, step)| *own == task && matches!(step, Step::Evict(..)));
        if let Some((_, Step::Evict(before, _))) = at.map(|at| steps.0.remove(at)) {
            self.stay(task, before);
        }
    }

    /// Carries the steps out: tasks with room are bound, and those that have to go are evicted.
    pub(crate) fn commit(&mut self, steps: Steps) {
        for (task, step) in steps.0 {
            self.model.tasks[task].last = None;
            match step {
                Step::Allocate => self.bind(task),
                Step::Pipeline => {}
                Step::Evict(_, why) => {
                    let job = self.model.tasks[task].job;
                    self.group_event(job, "Normal", "Evict", why.to_owned());
                    self.evicted.push((task, why));
                }
            }
        }
    }

    /// Leaves everything as it was before the session.
    pub(crate) fn leave(self) -> Model {
        let Self {
            cluster,
            mut placement,
            mut model,
            touched,
            ..
        } = self;
        let mut jobs = Vec::new();
        for (task, before) in touched.into_iter().rev() {
            let own = &mut model.tasks[task];
            if let Some(node) = own.node {
                let on = &mut model.nodes[node];
                on.take(&own.request, own.status);
                if before == Status::Pending {
                    on.tasks.retain(|other| *other != task);
                    own.node = None;
                } else {
                    on.put(&own.request, before);
                }
            }
            if let Some(number) = own.placed.take() {
                own.pod = placement.take_back(cluster, number);
            }
            own.status = before;
            own.removed = None;
            own.last = None;
            own.evicts = false;
            jobs.push(own.job);
        }
        placement.undo(cluster);
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            model.jobs[job].recount(&model.tasks);
        }
        for job in model.live.clone() {
            model.jobs[job].forget_session();
        }
        model
    }

    /// Sends a task to its node.
    pub(crate) fn bind(&mut self, task: usize) {
        if let Some(node) = self.model.tasks[task].node {
            self.change_on_node(task, Status::Binding);
            self.binds.push((task, node));
        }
    }
}
