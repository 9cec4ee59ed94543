//! A node of a snapshot.

use crate::session::snapshot::ids::TaskId;
use crate::session::snapshot::resource::{Dim, Resource, Unnamed, at_most};
use crate::session::snapshot::task::Status;

/// The amounts and tasks of a node (S6-091).
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) allocatable: Resource,
    pub(crate) idle: Resource,
    pub(crate) used: Resource,
    pub(crate) releasing: Resource,
    pub(crate) pipelined: Resource,
    /// Tasks of jobs on it.
    pub(crate) tasks: Vec<TaskId>,
}

impl Node {
    /// Counts a request as that of a task with this status.
    pub(crate) fn put(&mut self, request: &Resource, status: Status) {
        if status == Status::Pipelined {
            self.pipelined.add(request);
            return;
        }
        self.idle.sub(request);
        self.used.add(request);
        if status == Status::Releasing {
            self.releasing.add(request);
        }
    }

    pub(crate) fn take(&mut self, request: &Resource, status: Status) {
        if status == Status::Pipelined {
            self.pipelined.sub(request);
            return;
        }
        self.idle.add(request);
        self.used.sub(request);
        if status == Status::Releasing {
            self.releasing.sub(request);
        }
    }

    /// The idle amounts after the pending evictions.
    pub(crate) fn future_idle(&self) -> Resource {
        let mut idle = self.idle.clone();
        idle.add(&self.releasing);
        idle.sub(&self.pipelined);
        idle
    }

    /// Whether a request fits into the idle amounts.
    pub(crate) fn has_idle(&self, request: &Resource) -> bool {
        request.within(&self.idle, Unnamed::Zero)
    }

    /// Whether it fits after the pending evictions.
    pub(crate) fn will_have(&self, request: &Resource) -> bool {
        self.lacks(request).is_none()
    }

    /// The first resource with too little room after pending evictions.
    pub(crate) fn lacks(&self, request: &Resource) -> Option<Dim> {
        let mut asked = request.iter();
        let lacking = asked.find(|(dim, amount)| {
            let idle = self.idle.get(*dim) + self.releasing.get(*dim) - self.pipelined.get(*dim);
            !at_most(*amount, idle)
        });
        lacking.map(|(dim, _)| dim)
    }
}
