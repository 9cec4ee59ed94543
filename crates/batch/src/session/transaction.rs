//! Tentative placements and evictions for a job: committed, or undone in reverse order (S6-103).
//!
//! The cluster's own statement undoes one stretch as a whole. A session nests: a trial on one node, within a trial for one
//! job, beside earlier jobs. So a transaction keeps one statement of the cluster, and lists of operations say which of its
//! steps to undo.

use super::eviction_kind::EvictionKind;
use super::outcome::Event;
use super::plugins::{Plugins, Tiers};
use super::snapshot::Snapshot;
use crate::session::snapshot::fit::FitError;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::{Context, Status, UnknownPlace};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::{Cluster, NodeId, Pod, Statement};
use evictd_reconcile::Tone;

#[derive(Debug, Clone, Copy)]
enum Operation {
    /// It got a node.
    Allocate,
    /// It gets a node after pending evictions.
    Pipeline,
    /// It is evicted; its status before.
    Evict(Status, EvictionKind),
}

/// A place of a task that a trial found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Placement {
    task: TaskId,
    node: NodeId,
    /// Whether it gets the node after pending evictions.
    waits: bool,
}

/// Operations that belong together.
#[derive(Debug, Default)]
#[must_use]
pub(crate) struct Operations(Vec<(TaskId, Operation)>);

impl Operations {
    /// The tasks that were allocated or pipelined.
    pub(crate) fn placed_tasks(&self) -> impl Iterator<Item = TaskId> {
        let operations = self.0.iter();
        operations
            .filter(|(_, operation)| matches!(operation, Operation::Allocate | Operation::Pipeline))
            .map(|(task, _)| *task)
    }

    /// How many tasks were allocated or pipelined.
    pub(crate) fn placed(&self) -> usize {
        self.placed_tasks().count()
    }

    /// The tasks that got a node, or get one after pending evictions, with the node.
    pub(crate) fn placements(&self, snapshot: &Snapshot) -> Vec<Placement> {
        let operations = self.0.iter().filter_map(|(task, operation)| {
            let waits = match operation {
                Operation::Allocate => false,
                Operation::Pipeline => true,
                Operation::Evict(..) => return None,
            };
            let node = snapshot.tasks[*task].node?;
            Some(Placement {
                task: *task,
                node,
                waits,
            })
        });
        operations.collect()
    }

    pub(crate) fn evicted(&self) -> impl Iterator<Item = TaskId> {
        let operations = self.0.iter();
        let evicted = operations.filter(|(_, operation)| matches!(operation, Operation::Evict(..)));
        evicted.map(|(task, _)| *task)
    }

    /// Appends the operations of another list.
    pub(crate) fn append(&mut self, other: Self) {
        self.0.extend(other.0);
    }
}

/// The snapshot of a session with the changes so far. Everything that places or evicts a task is done through it.
pub(crate) struct Transaction<'c> {
    pub(crate) cluster: &'c mut Cluster,
    pub(crate) snapshot: Snapshot,
    pub(crate) plugins: Plugins,
    pub(crate) compat: Compat,
    statement: Statement,
    /// The nodes that changed, one after the other.
    pub(crate) changed_nodes: Vec<NodeId>,
    /// Tasks that were placed or evicted, with their status before, in order.
    touched: Vec<(TaskId, Status)>,
    pub(crate) binds: Vec<(TaskId, NodeId)>,
    pub(crate) evicted: Vec<(TaskId, EvictionKind)>,
    pub(crate) events: Vec<Event>,
}

impl<'c> Transaction<'c> {
    pub(crate) fn new(
        cluster: &'c mut Cluster,
        snapshot: Snapshot,
        plugins: Plugins,
        compat: Compat,
    ) -> Self {
        Self {
            cluster,
            snapshot,
            plugins,
            compat,
            statement: Statement::default(),
            changed_nodes: Vec::new(),
            touched: Vec::new(),
            binds: Vec::new(),
            evicted: Vec::new(),
            events: Vec::new(),
        }
    }
}

impl Transaction<'_> {
    /// The plugins' view of the snapshot.
    pub(crate) const fn tiers(&self) -> Tiers<'_> {
        Tiers {
            snapshot: &self.snapshot,
            plugins: &self.plugins,
        }
    }

    pub(crate) fn node_name(&self, node: NodeId) -> &str {
        self.cluster.node_name(node)
    }

    /// Records an event of a pod group.
    pub(crate) fn group_event(&mut self, job: JobId, kind: Tone, reason: &str, message: String) {
        let job = &self.snapshot.jobs[job];
        // Groups of scheduling.k8s.io and bare pods are described by their conditions alone.
        if job.has_object() {
            let event = Event::of_group(job, kind, reason, message);
            self.events.push(event);
        }
    }

    /// Gives a task room on a node.
    pub(crate) fn allocate(&mut self, operations: &mut Operations, task: TaskId, node: NodeId) {
        self.put_on(task, node, Status::Allocated);
        operations.0.push((task, Operation::Allocate));
    }

    /// Pipelines a task on a node that will have room; `evicts` says whether pods are evicted for it.
    pub(crate) fn pipeline(
        &mut self,
        operations: &mut Operations,
        task: TaskId,
        node: NodeId,
        evicts: bool,
    ) {
        self.snapshot.tasks[task].evicts = evicts;
        self.put_on(task, node, Status::Pipelined);
        operations.0.push((task, Operation::Pipeline));
    }

    pub(crate) fn evict(
        &mut self,
        operations: &mut Operations,
        task_id: TaskId,
        kind: EvictionKind,
    ) {
        let before = self.snapshot.tasks[task_id].status;
        self.touched.push((task_id, before));
        self.snapshot.set_status(task_id, Status::Releasing);
        let task = &mut self.snapshot.tasks[task_id];
        if let Some(node) = task.node {
            if let Some(number) = task.removed {
                self.statement.remove_again(self.cluster, number);
            } else {
                let mut pods = self.cluster.node(node).pods.iter();
                // The cluster knows the pod only by its key.
                let at = pods.position(|pod| match pod.uid() {
                    "" => self.cluster.full_name(pod) == **task.id,
                    uid => *uid == **task.id,
                });
                task.removed = at.map(|at| self.statement.remove(self.cluster, node, at));
            }
            // A pod that cannot be read takes no room in the cluster.
            if task.removed.is_some() {
                self.snapshot.nodes[node.index()].evict(&task.request);
                self.snapshot.refresh_node(self.cluster, node);
            }
            self.changed_nodes.push(node);
        }
        self.plugins.deallocated(&self.snapshot, task_id);
        operations.0.push((task_id, Operation::Evict(before, kind)));
    }

    /// Puts a task on a node outside of any list of operations.
    pub(crate) fn put_on(&mut self, task_id: TaskId, node: NodeId, status: Status) {
        self.touched.push((task_id, Status::Pending));
        self.snapshot.set_status(task_id, status);
        let task = &mut self.snapshot.tasks[task_id];
        task.node = Some(node);
        let on_node = &mut self.snapshot.nodes[node.index()];
        on_node.tasks.push(task_id);
        if let Some(pod) = task.pod.take() {
            if status == Status::Pipelined {
                on_node.pipeline(&task.request);
            }
            task.placed = Some(self.statement.place(self.cluster, pod, node));
        }
        self.snapshot.refresh_node(self.cluster, node);
        self.changed_nodes.push(node);
        self.plugins.allocated(&self.snapshot, task_id);
    }

    /// Takes a task off its node again, so that it is pending.
    pub(crate) fn take_off(&mut self, task_id: TaskId) {
        let status = self.snapshot.tasks[task_id].status;
        self.snapshot.set_status(task_id, Status::Pending);
        let task = &mut self.snapshot.tasks[task_id];
        task.evicts = false;
        let placed = task.placed.take();
        if let Some(number) = placed {
            task.pod = self.statement.take_back(self.cluster, number);
        }
        if let Some(node) = task.node {
            let on_node = &mut self.snapshot.nodes[node.index()];
            if status == Status::Pipelined && placed.is_some() {
                on_node.unpipeline(&task.request);
            }
            on_node.tasks.retain(|other| *other != task_id);
            self.snapshot.refresh_node(self.cluster, node);
            self.changed_nodes.push(node);
        }
        // Plugins ask where it was.
        self.plugins.deallocated(&self.snapshot, task_id);
        self.snapshot.tasks[task_id].node = None;
    }

    /// Prepares the copy of a task whose place allocate does not know for another evaluation. Returns whether there is one.
    pub(crate) fn begin_again(&mut self, task_id: TaskId) -> bool {
        let task = &mut self.snapshot.tasks[task_id];
        if task.unknown_place != UnknownPlace::Pending {
            return false;
        }
        let node = task.node.map(|node| self.cluster.node(node));
        let mut pods = node.into_iter().flat_map(|node| node.pods.iter());
        let is_task = |pod: &&Pod| match pod.uid() {
            "" => self.cluster.full_name(pod) == **task.id,
            uid => *uid == **task.id,
        };
        task.pod = pods.find(is_task).cloned();
        true
    }

    /// Takes a task off its unknown place once it was evaluated again, for this node. Returns whether it gets no other place:
    /// without a node it stays where it is, and on the same node it loses its place. Plugins count the lost place on.
    pub(crate) fn place_again(&mut self, task_id: TaskId, to: Option<NodeId>) -> bool {
        let task = &mut self.snapshot.tasks[task_id];
        task.pod = None;
        let Some((to, from)) = to.zip(task.node) else {
            return false;
        };
        task.unknown_place = UnknownPlace::Tried;
        task.last = Some(task.context());
        task.evicts = false;
        task.node = None;
        let placed = task.placed.take();
        task.pod = placed.and_then(|number| self.statement.take_back(self.cluster, number));
        self.snapshot.set_status(task_id, Status::Pending);
        let on_node = &mut self.snapshot.nodes[from.index()];
        on_node.tasks.retain(|other| *other != task_id);
        let request = &self.snapshot.tasks[task_id].request;
        if to == from {
            on_node.unpipeline(request);
        } else {
            on_node.keep_promise(request);
        }
        self.snapshot.refresh_node(self.cluster, from);
        self.changed_nodes.push(from);
        to == from
    }

    /// Undoes operations, the last first. Tasks keep the context of the failed attempt.
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
                Operation::Evict(before, _) => self.unevict(task_id, before),
            }
        }
    }

    /// Undoes an eviction.
    fn unevict(&mut self, task_id: TaskId, before: Status) {
        // Volcano turns a bound pod into a running one here.
        let status = if self.compat.has(Difference::ExactUndo) {
            before
        } else {
            Status::Running
        };
        self.snapshot.set_status(task_id, status);
        let task = &self.snapshot.tasks[task_id];
        let node = task.node;
        if let Some((number, node)) = task.removed.zip(node) {
            self.statement.put_back(self.cluster, number);
            self.snapshot.nodes[node.index()].unevict(&task.request);
            self.snapshot.refresh_node(self.cluster, node);
        }
        self.changed_nodes.extend(node);
        self.plugins.allocated(&self.snapshot, task_id);
    }

    /// Takes a task off the node that it got last, if a plugin objects. Returns the objection.
    pub(crate) fn vetoed(&mut self, operations: &mut Operations, task: TaskId) -> Option<FitError> {
        let words = FitError::Words(self.plugins.veto(task)?.into());
        let at = operations.0.iter().rposition(|(placed, operation)| {
            *placed == task && matches!(operation, Operation::Allocate | Operation::Pipeline)
        });
        if let Some(at) = at {
            operations.0.remove(at);
            self.take_off(task);
        }
        Some(words)
    }

    /// Undoes the operation that evicts a task.
    pub(crate) fn take_back(&mut self, operations: &mut Operations, task: TaskId) {
        let at = operations.0.iter().rposition(|(evicted, operation)| {
            *evicted == task && matches!(operation, Operation::Evict(..))
        });
        let removed = at.map(|at| operations.0.remove(at));
        if let Some((_, Operation::Evict(before, _))) = removed {
            self.unevict(task, before);
        }
    }

    /// Places tasks as an earlier trial did.
    pub(crate) fn repeat(&mut self, placements: &[Placement]) -> Operations {
        let mut operations = Operations::default();
        for placement in placements {
            let (task, node) = (placement.task, placement.node);
            if placement.waits {
                self.pipeline(&mut operations, task, node, false);
            } else {
                self.allocate(&mut operations, task, node);
            }
            // A plugin may object although it did not at the trial.
            self.vetoed(&mut operations, task);
        }
        operations
    }

    /// Carries operations out: allocated tasks are bound, and victims are evicted.
    pub(crate) fn commit(&mut self, operations: Operations) {
        for (task, operation) in operations.0 {
            // A committed attempt has not failed.
            self.snapshot.tasks[task].last = None;
            match operation {
                Operation::Allocate => self.bind(task),
                Operation::Pipeline => {}
                Operation::Evict(_, kind) => {
                    let job = self.snapshot.tasks[task].job;
                    self.group_event(job, Tone::Normal, "Evict", kind.as_str().to_owned());
                    self.evicted.push((task, kind));
                }
            }
        }
    }

    /// Binds an allocated task to its node.
    pub(crate) fn bind(&mut self, task: TaskId) {
        if let Some(node) = self.snapshot.tasks[task].node {
            self.snapshot.set_status(task, Status::Binding);
            self.binds.push((task, node));
        }
    }

    /// Undoes everything, and returns the snapshot from before the session. The amounts of changed nodes are read again
    /// before the next session.
    pub(crate) fn undo(mut self) -> Snapshot {
        let snapshot = &mut self.snapshot;
        let mut jobs = Vec::new();
        // A task may have been touched several times. The oldest status is applied last.
        for (task_id, before) in self.touched.into_iter().rev() {
            let task = &mut snapshot.tasks[task_id];
            if before == Status::Pending
                && let Some(node) = task.node.take()
            {
                let tasks = &mut snapshot.nodes[node.index()].tasks;
                tasks.retain(|other| *other != task_id);
            }
            if let Some(number) = task.placed.take() {
                task.pod = self.statement.take_back(self.cluster, number);
            }
            task.status = before;
            task.removed = None;
            task.last = None;
            task.evicts = false;
            task.unknown_place = UnknownPlace::None;
            jobs.push(task.job);
        }
        // Placed pods are back in their tasks. This restores the removed ones and the nominations.
        self.statement.undo(self.cluster);
        jobs.sort_unstable();
        jobs.dedup();
        for job in jobs {
            snapshot.jobs[job].recount(&snapshot.tasks);
        }
        for job in snapshot.live.clone() {
            snapshot.jobs[job].forget_session();
        }
        self.snapshot
    }
}
