//! Tentative placements and evictions for a job: committed, or undone in reverse order (S6-103).
//!
//! The cluster's own statement undoes one stretch as a whole. A session nests: a trial on one node, within a trial for
//! one job, beside earlier jobs. So the session keeps one statement of the cluster, and these lists say which of its
//! operations to undo.

use super::Session;
use super::snapshot::Snapshot;
use super::task::{Context, Status};
use crate::compat::Difference;
use evictd_placement::NodeId;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// It got a node.
    Allocate,
    /// It gets a node after pending evictions.
    Pipeline,
    /// It is evicted; its status before.
    Evict(Status, &'static str),
}

/// Operations that belong together.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Operations(Vec<(usize, Operation)>);

impl Operations {
    /// How many tasks got a node, or get one.
    pub(crate) fn placed(&self) -> usize {
        let operations = self.0.iter();
        operations
            .filter(|(_, operation)| matches!(operation, Operation::Allocate | Operation::Pipeline))
            .count()
    }

    /// The tasks that are sent away.
    pub(crate) fn evicted(&self) -> impl Iterator<Item = usize> {
        let operations = self.0.iter();
        let evicted = operations.filter(|(_, operation)| matches!(operation, Operation::Evict(..)));
        evicted.map(|(task, _)| *task)
    }

    /// Appends the operations of another list.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

impl Session<'_> {
    /// Gives a task room on a node.
    pub(crate) fn allocate_on(&mut self, operations: &mut Operations, task: usize, node: usize) {
        self.put_on(task, node, Status::Allocated);
        operations.0.push((task, Operation::Allocate));
    }

    /// Pipelines a task on a node that will have room; `evicts` says whether pods are evicted for it.
    pub(crate) fn pipeline_on(
        &mut self,
        operations: &mut Operations,
        task: usize,
        node: usize,
        evicts: bool,
    ) {
        self.snapshot.tasks[task].evicts = evicts;
        self.put_on(task, node, Status::Pipelined);
        operations.0.push((task, Operation::Pipeline));
    }

    /// Sends a task away.
    pub(crate) fn evict(&mut self, operations: &mut Operations, task_id: usize, why: &'static str) {
        let before = self.snapshot.tasks[task_id].status;
        self.touched.push((task_id, before));
        self.change_on_node(task_id, Status::Releasing);
        let task = &mut self.snapshot.tasks[task_id];
        if let Some(node) = task.node {
            if let Some(number) = task.removed {
                self.placement.remove_again(self.cluster, number);
            } else {
                let id = NodeId::of(node);
                let mut pods = self.cluster.node(id).pods.iter();
                let at = pods.position(|pod| {
                    if task.uid.is_empty() {
                        self.cluster.full_name(pod) == *task.key
                    } else {
                        pod.uid() == &*task.uid
                    }
                });
                task.removed = at.map(|at| self.placement.remove(self.cluster, id, at));
            }
            self.log.push(node);
        }
        self.plugins.deallocated(&self.snapshot, task_id);
        operations.0.push((task_id, Operation::Evict(before, why)));
    }

    /// Puts a task on a node without a list to take it back by.
    pub(crate) fn put_on(&mut self, task_id: usize, node: usize, status: Status) {
        self.touched.push((task_id, Status::Pending));
        self.snapshot.set_status(task_id, status);
        let task = &mut self.snapshot.tasks[task_id];
        task.node = Some(node);
        let on = &mut self.snapshot.nodes[node];
        on.put(&task.request, status);
        on.tasks.push(task_id);
        if let Some(pod) = task.pod.take() {
            let number = self.placement.place(self.cluster, pod, NodeId::of(node));
            task.placed = Some(number);
        }
        self.log.push(node);
        self.plugins.allocated(&self.snapshot, task_id);
    }

    /// Takes a task off its node again, so that it waits.
    pub(crate) fn take_off(&mut self, task_id: usize) {
        let status = self.snapshot.tasks[task_id].status;
        self.snapshot.set_status(task_id, Status::Pending);
        let task = &mut self.snapshot.tasks[task_id];
        task.evicts = false;
        if let Some(node) = task.node.take() {
            let on = &mut self.snapshot.nodes[node];
            on.take(&task.request, status);
            on.tasks.retain(|other| *other != task_id);
            self.log.push(node);
        }
        if let Some(number) = task.placed.take() {
            task.pod = self.placement.take_back(self.cluster, number);
        }
        self.plugins.deallocated(&self.snapshot, task_id);
    }

    fn change_on_node(&mut self, task: usize, status: Status) {
        let before = self.snapshot.tasks[task].status;
        self.snapshot.set_status(task, status);
        let task = &self.snapshot.tasks[task];
        if let Some(node) = task.node {
            let on = &mut self.snapshot.nodes[node];
            on.take(&task.request, before);
            on.put(&task.request, status);
        }
    }

    /// Undoes the operations, the last first. Tasks remember where they stood.
    pub(crate) fn discard(&mut self, operations: Operations) {
        for (task_id, operation) in operations.0.into_iter().rev() {
            let task = &mut self.snapshot.tasks[task_id];
            task.last = Some(Context {
                status: task.status,
                node: task.node,
                evicts: task.evicts,
            });
            match operation {
                Operation::Allocate | Operation::Pipeline => self.take_off(task_id),
                Operation::Evict(before, _) => self.stay(task_id, before),
            }
        }
    }

    /// A task that was to go stays.
    fn stay(&mut self, task_id: usize, before: Status) {
        let status = if self.compat.has(Difference::ExactUndo) {
            before
        } else {
            Status::Running
        };
        self.change_on_node(task_id, status);
        let task = &self.snapshot.tasks[task_id];
        if let Some(number) = task.removed {
            self.placement.put_back(self.cluster, number);
        }
        self.log.extend(task.node);
        self.plugins.allocated(&self.snapshot, task_id);
    }

    /// Undoes the operation that sends a task away.
    pub(crate) fn take_back(&mut self, operations: &mut Operations, task: usize) {
        let at = operations.0.iter().rposition(|(evicted, operation)| {
            *evicted == task && matches!(operation, Operation::Evict(..))
        });
        if let Some((_, Operation::Evict(before, _))) = at.map(|at| operations.0.remove(at)) {
            self.stay(task, before);
        }
    }

    /// Carries the operations out: tasks with room are bound, and those that have to go are evicted.
    pub(crate) fn commit(&mut self, operations: Operations) {
        for (task, operation) in operations.0 {
            self.snapshot.tasks[task].last = None;
            match operation {
                Operation::Allocate => self.bind(task),
                Operation::Pipeline => {}
                Operation::Evict(_, why) => {
                    let job = self.snapshot.tasks[task].job;
                    self.group_event(job, "Normal", "Evict", why.to_owned());
                    self.evicted.push((task, why));
                }
            }
        }
    }

    /// Leaves everything as it was before the session.
    pub(crate) fn leave(self) -> Snapshot {
        let Self {
            cluster,
            mut placement,
            mut snapshot,
            touched,
            ..
        } = self;
        let mut jobs = Vec::new();
        for (task_id, before) in touched.into_iter().rev() {
            let task = &mut snapshot.tasks[task_id];
            if let Some(node) = task.node {
                let on = &mut snapshot.nodes[node];
                on.take(&task.request, task.status);
                if before == Status::Pending {
                    on.tasks.retain(|other| *other != task_id);
                    task.node = None;
                } else {
                    on.put(&task.request, before);
                }
            }
            if let Some(number) = task.placed.take() {
                task.pod = placement.take_back(cluster, number);
            }
            task.status = before;
            task.removed = None;
            task.last = None;
            task.evicts = false;
            jobs.push(task.job);
        }
        placement.undo(cluster);
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            snapshot.jobs[job].recount(&snapshot.tasks);
        }
        for job in snapshot.live.clone() {
            snapshot.jobs[job].forget_session();
        }
        snapshot
    }

    /// Sends a task to its node.
    pub(crate) fn bind(&mut self, task: usize) {
        if let Some(node) = self.snapshot.tasks[task].node {
            self.change_on_node(task, Status::Binding);
            self.binds.push((task, node));
        }
    }
}
