//! Plugin priority: jobs and tasks by priority (S6-124).

use super::{Plugin, TaskOrder, Tiers};
use crate::session::eviction_kind::EvictionKind;
use crate::session::plugins::Lost;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::sub_jobs::SubJob;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct Priority;

impl TaskOrder for Priority {
    fn task_order(&self, snapshot: &Snapshot, one: TaskId, other: TaskId) -> Ordering {
        let priority = |task: TaskId| snapshot.tasks[task].priority;
        priority(other).cmp(&priority(one))
    }
}

impl Plugin for Priority {
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        let priority = |job: JobId| snapshot.jobs[job].priority;
        priority(other).cmp(&priority(one))
    }

    fn job_order_message(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Option<String> {
        let priority = |job: JobId| snapshot.jobs[job].priority;
        Some(format!(
            "priority {} against {}",
            priority(one),
            priority(other)
        ))
    }

    fn job_order_after(&self, snapshot: &Snapshot, task: TaskId, job: JobId, _: &Lost) -> Ordering {
        self.job_order(snapshot, snapshot.tasks[task].job, job)
    }

    fn task_order(&self) -> Option<&dyn TaskOrder> {
        Some(self)
    }

    fn sub_job_order(&self, snapshot: &Snapshot, one: &SubJob, other: &SubJob) -> Ordering {
        let priority = |part: &SubJob| part.priority(&snapshot.tasks);
        priority(other).cmp(&priority(one))
    }

    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let snapshot = tiers.snapshot;
        let preemptor = &snapshot.tasks[preemptor];
        let priority = |job: JobId| snapshot.jobs[job].priority;
        let is_lower = |candidate: &TaskId| {
            let victim = &snapshot.tasks[*candidate];
            if victim.job == preemptor.job {
                return victim.priority < preemptor.priority;
            }
            priority(victim.job) < priority(preemptor.job)
        };
        Some(candidates.iter().copied().filter(is_lower).collect())
    }

    fn gang_evictable(
        &self,
        snapshot: &Snapshot,
        kind: EvictionKind,
        job: JobId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let priority = |job: JobId| snapshot.jobs[job].priority;
        let is_lower = |task: &TaskId| priority(snapshot.tasks[*task].job) < priority(job);
        (kind == EvictionKind::GangPreempt)
            .then(|| candidates.iter().copied().filter(is_lower).collect())
    }

    fn might_yield(&self, snapshot: &Snapshot, job: JobId, to: JobId) -> Option<bool> {
        Some(snapshot.jobs[job].priority < snapshot.jobs[to].priority)
    }

    /// A job starves until all of its tasks have a node.
    fn job_starving(&self, snapshot: &Snapshot, job: JobId) -> Option<bool> {
        let job = &snapshot.jobs[job];
        let has = job.ready() + job.pipelined();
        Some(i32::try_from(job.tasks.len()).is_ok_and(|all| has < all))
    }
}
