//! Plugin gang: a job starts with at least `minMember` pods or with none (S6-119 to S6-122).

use super::{Invalid, Lost, Plugin, Tiers, Vote};
use crate::session::eviction_kind::EvictionKind;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::sub_jobs::SubJob;
use crate::session::snapshot::task::{Status, Task};
use crate::session::snapshot::{Job, Snapshot};
use evictd_batch_objects::{Compat, Difference};
use hashbrown::HashMap;
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct Gang {
    compat: Compat,
}

fn true_first(one: bool, other: bool) -> Ordering {
    other.cmp(&one)
}

impl Gang {
    pub(super) const fn new(compat: Compat) -> Self {
        Self { compat }
    }

    /// Whether a gang runs in part, and comes first because of that.
    fn is_broken(&self, job: &Job) -> bool {
        self.compat.has(Difference::BrokenGangsFirst)
            && job.count(Status::Running) > 0
            && job.ready() < job.min_member
    }

    /// The tasks that their gangs can spare. Whole gangs are chosen with the order of the victims instead.
    fn spare(&self, tiers: Tiers<'_>, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        if self.evicts_whole_gangs() {
            return None;
        }
        let mut left: HashMap<JobId, i32> = HashMap::new();
        let can_spare = |candidate: &TaskId| {
            let id = tiers.snapshot.tasks[*candidate].job;
            let job = &tiers.snapshot.jobs[id];
            let left = left.entry(id).or_insert_with(|| job.ready());
            let spare = *left > job.min_member;
            *left -= i32::from(spare);
            spare
        };
        Some(candidates.iter().copied().filter(can_spare).collect())
    }
}

impl Plugin for Gang {
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        let (one, other) = (&snapshot.jobs[one], &snapshot.jobs[other]);
        true_first(self.is_broken(one), self.is_broken(other))
            .then_with(|| true_first(!one.is_ready(), !other.is_ready()))
    }

    fn job_order_message(&self, snapshot: &Snapshot, one: JobId, _: JobId) -> Option<String> {
        let message = if self.is_broken(&snapshot.jobs[one]) {
            "its gang runs in part, and is completed first"
        } else {
            "its gang is not complete, and this one's is"
        };
        Some(message.to_owned())
    }

    fn job_order_after(
        &self,
        snapshot: &Snapshot,
        task: TaskId,
        job: JobId,
        lost: &Lost,
    ) -> Ordering {
        let complete = snapshot.jobs[snapshot.tasks[task].job].is_pipelined();
        complete.cmp(&snapshot.jobs[job].spares(lost.tasks))
    }

    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        _: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.spare(tiers, candidates)
    }

    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        _: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.spare(tiers, candidates)
    }

    fn gang_evictable(
        &self,
        _: &Snapshot,
        _: EvictionKind,
        _: JobId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        Some(candidates.to_vec())
    }

    fn might_yield(&self, snapshot: &Snapshot, job: JobId, _: JobId) -> Option<bool> {
        let job = &snapshot.jobs[job];
        (!self.evicts_whole_gangs()).then(|| job.ready() > job.min_member)
    }

    fn job_ready(&self, snapshot: &Snapshot, job: JobId) -> bool {
        snapshot.has_gang(job) && snapshot.enough_parts(job, |part| part.is_ready(&snapshot.tasks))
    }

    fn sub_job_order(&self, snapshot: &Snapshot, one: &SubJob, other: &SubJob) -> Ordering {
        let ready = |part: &SubJob| part.is_ready(&snapshot.tasks);
        true_first(!ready(one), !ready(other))
    }

    fn counts_parts(&self) -> bool {
        true
    }

    fn job_pipelined(&self, snapshot: &Snapshot, job: JobId) -> Vote {
        let counts = |task: &Task| task.is_there() || task.status == Status::Pipelined;
        if snapshot.jobs[job].is_pipelined()
            && snapshot.enough_by_role(job, counts)
            && snapshot.enough_parts(job, |part| part.is_pipelined(&snapshot.tasks))
        {
            Vote::Permit
        } else {
            Vote::Reject
        }
    }

    fn job_starving(&self, snapshot: &Snapshot, job: JobId) -> Option<bool> {
        let job = &snapshot.jobs[job];
        Some(job.ready() + job.pipelined() < job.min_member)
    }

    fn job_valid(&self, snapshot: &Snapshot, job: JobId) -> Option<Invalid> {
        if !snapshot.enough_by_role(job, |task| task.status.is_valid()) {
            return Some(Invalid {
                reason: "NotEnoughPodsOfTask",
                message: "Not enough valid pods of each task for gang-scheduling".to_owned(),
            });
        }
        if !snapshot.enough_parts(job, |_| true) {
            return Some(Invalid {
                reason: "NotEnoughPodsOfTask",
                message: "Not enough valid subGroups of each task for gang-scheduling".to_owned(),
            });
        }
        let job = &snapshot.jobs[job];
        let valid = Status::ALL.into_iter().filter(|status| status.is_valid());
        let valid: i32 = valid.map(|status| job.count(status)).sum();
        (valid < job.min_member).then(|| Invalid {
            reason: "NotEnoughTasks",
            message: format!(
                "Not enough valid tasks for gang-scheduling, valid: {valid}, min: {}",
                job.min_member
            ),
        })
    }

    fn evicts_whole_gangs(&self) -> bool {
        self.compat.has(Difference::WholeGangs)
    }
}
