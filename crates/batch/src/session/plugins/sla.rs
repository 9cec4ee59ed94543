//! Plugin sla: a job that has waited for its time is enqueued (S6-213).

use super::{Plugin, Reserved, Tiers, Vote};
use crate::conf::Arguments;
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::{GROUP_MARKS, Snapshot};
use evictd_pod::duration;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Ordering;

#[derive(Debug)]
pub(super) struct Sla {
    /// The waiting time of jobs that name none.
    default: Option<SignedDuration>,
}

/// A duration that can be waited for.
fn waiting_time(text: &str) -> Option<SignedDuration> {
    let waiting = duration::parse(text).ok()?;
    waiting.is_positive().then_some(waiting)
}

impl Sla {
    pub(super) fn open(arguments: &Arguments) -> Self {
        Self {
            default: arguments.text("sla-waiting-time").and_then(waiting_time),
        }
    }

    /// When a job has waited for its time.
    fn due(&self, snapshot: &Snapshot, job: JobId) -> Option<Timestamp> {
        let job = &snapshot.jobs[job];
        let mut named = GROUP_MARKS[..2].iter();
        let named = named.find_map(|key| job.marks.get(key).and_then(waiting_time));
        let waiting = named.or(self.default)?;
        job.created?.checked_add(waiting).ok()
    }

    fn vote(&self, snapshot: &Snapshot, job: JobId) -> Vote {
        match self.due(snapshot, job) {
            Some(due) if due <= snapshot.clock() => Vote::Permit,
            _ => Vote::Abstain,
        }
    }
}

impl Plugin for Sla {
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        match (self.due(snapshot, one), self.due(snapshot, other)) {
            (Some(one), Some(other)) => one.cmp(&other),
            (one, other) => other.is_some().cmp(&one.is_some()),
        }
    }

    fn job_order_message(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Option<String> {
        let due = |job: JobId| self.due(snapshot, job);
        let message = match (due(one), due(other)) {
            (Some(one), Some(other)) => format!("its waiting time ends at {one}, not at {other}"),
            _ => "it has a waiting time".to_owned(),
        };
        Some(message)
    }

    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        _: &Resource,
        _: &Reserved,
    ) -> Result<Vote, String> {
        Ok(self.vote(tiers.snapshot, job))
    }

    fn job_pipelined(&self, snapshot: &Snapshot, job: JobId) -> Vote {
        self.vote(snapshot, job)
    }
}
