//! Plugin task-topology: tasks of a job that work together get one node, and tasks that disturb each other get several
//! (S6-217, S6-218).

mod affinities;
mod buckets;

use super::{OnNode, Plugin, TaskOrder};
use crate::conf::Arguments;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::Status;
use buckets::Buckets;
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::NodeId;
use hashbrown::HashMap;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct TaskTopology {
    weight: f64,
    jobs: HashMap<JobId, Buckets>,
    /// The nodes of tasks that were placed in this session.
    placed: HashMap<TaskId, NodeId>,
    /// Whether a placement that is given up is undone here, too.
    undoes: bool,
}

impl TaskTopology {
    pub(super) fn open(snapshot: &Snapshot, arguments: &Arguments, compat: Compat) -> Self {
        let jobs = snapshot.live_jobs();
        let waiting = jobs.filter(|(_, job)| job.count(Status::Pending) > 0);
        let running = compat.has(Difference::RunningTasksRepel);
        let jobs = waiting.filter_map(|(id, _)| Some((id, Buckets::of(snapshot, id, running)?)));
        Self {
            weight: arguments.whole("task-topology.weight", 1.0),
            jobs: jobs.collect(),
            placed: HashMap::new(),
            undoes: compat.has(Difference::ExactUndo),
        }
    }

    fn key(&self, snapshot: &Snapshot, task: TaskId) -> Option<u32> {
        self.jobs.get(&snapshot.tasks[task].job)?.key(task)
    }
}

impl TaskOrder for TaskTopology {
    fn task_order(&self, snapshot: &Snapshot, one: TaskId, other: TaskId) -> Ordering {
        let job = |task: TaskId| snapshot.tasks[task].job;
        let (left, right) = (self.jobs.get(&job(one)), self.jobs.get(&job(other)));
        let (Some(left), Some(right)) = (left, right) else {
            return Ordering::Equal;
        };
        let outside = left.key(one).is_none().cmp(&right.key(other).is_none());
        if outside.is_ne() || job(one) != job(other) {
            return outside;
        }
        left.order(snapshot, one, other)
    }
}

impl Plugin for TaskTopology {
    fn task_order(&self) -> Option<&dyn TaskOrder> {
        Some(self)
    }

    fn allocated(&mut self, snapshot: &Snapshot, id: TaskId) {
        let task = &snapshot.tasks[id];
        // A victim that stays was counted when the session opened.
        let stays = self.undoes && task.placed.is_none();
        let buckets = self.jobs.get_mut(&task.job).filter(|_| !stays);
        if let Some((buckets, node)) = buckets.zip(task.node) {
            buckets.place(snapshot, id, node, false);
            self.placed.insert(id, node);
        }
    }

    fn deallocated(&mut self, snapshot: &Snapshot, id: TaskId) {
        if !self.undoes {
            return;
        }
        let buckets = self.jobs.get_mut(&snapshot.tasks[id].job);
        if let Some((buckets, node)) = buckets.zip(self.placed.remove(&id)) {
            buckets.place(snapshot, id, node, true);
        }
    }

    fn node_key(&self, snapshot: &Snapshot, task: TaskId) -> u64 {
        let job = snapshot.tasks[task].job.index() as u64;
        let key = self.key(snapshot, task);
        key.map_or(0, |key| (job << 32) | u64::from(key))
    }

    /// A placement changes the rest of the bucket, and with it the scores of every node.
    fn looks_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        self.key(snapshot, task).is_some()
    }

    fn node_score(&self, at: OnNode<'_>) -> f64 {
        let buckets = self.jobs.get(&at.snapshot.tasks[at.task].job);
        let score = buckets.map_or(0.0, |buckets| buckets.score(at.snapshot, at.task, at.node));
        score * self.weight
    }
}
