//! The diagnosis of one job during a session: its blocking reasons, the jobs before it, and where its pods would fit.
//! It observes and changes nothing.

mod blocking_reason;
mod feasibility;
mod jobs_ahead;
mod queue_usage;

pub use crate::session::plugins::LimitingKey;
pub use blocking_reason::{BlockingReason, Shortfall};
pub use feasibility::{Feasibility, MissingAmount, NearMiss, RoleFeasibility};
pub use jobs_ahead::Ahead;
pub use queue_usage::{QueueUsage, ResourceUsage};

use super::Session;
use super::observer::Observer;
use crate::conf::Action;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::Status;
use evictd_pod::Quantity;
use serde::Serialize;
use std::collections::BTreeMap;

/// The diagnosis of one job in one session.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct JobDiagnosis {
    /// So many pods start at once or none.
    pub min_member: i32,
    /// The priority of its class.
    pub priority: i32,
    /// Its pods before the session, by status: `Pending`, `Running`, ...
    pub pods: BTreeMap<&'static str, i32>,
    /// Pods with scheduling gates, `namespace/name`.
    pub gated: Vec<String>,
    /// How many pods its gang lacks before the session.
    pub missing: i32,
    /// Its queue before the session.
    pub queue: QueueUsage,
    /// The pending jobs of the same queue that come before it, in order.
    pub ahead: Vec<Ahead>,
    /// Why it gets no room at all, in the order in which a session checks.
    #[serde(rename = "holds")]
    pub blocking_reasons: Vec<BlockingReason>,
    /// Where its pods that wait would find room after the session.
    #[serde(rename = "places")]
    pub feasibility: Feasibility,
}

/// Looks at the job with this index.
pub(crate) struct DiagnosisObserver {
    job: JobId,
    diagnosis: JobDiagnosis,
}

impl DiagnosisObserver {
    pub(super) fn of(job: JobId) -> Self {
        Self {
            job,
            diagnosis: JobDiagnosis::default(),
        }
    }

    pub(super) fn into_diagnosis(self) -> JobDiagnosis {
        self.diagnosis
    }
}

impl Observer for DiagnosisObserver {
    fn opened(&mut self, session: &Session<'_>) {
        let job = &session.tx.snapshot.jobs[self.job];
        let counts = Status::ALL.map(|status| (status.as_str(), job.count(status)));
        let gated = job
            .tasks
            .iter()
            .map(|task| &session.tx.snapshot.tasks[*task]);
        let gated = gated.filter(|task| task.gated && task.status == Status::Pending);
        self.diagnosis = JobDiagnosis {
            min_member: job.min_member,
            priority: job.priority,
            pods: counts.into_iter().filter(|(_, count)| *count > 0).collect(),
            gated: gated.map(|task| task.key.to_string()).collect(),
            missing: job.min_member.saturating_sub(job.ready()).max(0),
            queue: queue_usage::queue_usage(&session.tx, job.queue),
            ahead: jobs_ahead::ahead_of(session, self.job),
            ..JobDiagnosis::default()
        };
    }

    // Each reason is read right after its action, because later actions change the shares.
    fn acted(&mut self, session: &Session<'_>, action: Action) {
        let reason = match action {
            Action::Enqueue => blocking_reason::not_enqueued_because(session, self.job),
            Action::Allocate => blocking_reason::share_used(&session.tx, self.job),
            _ => None,
        };
        self.diagnosis.blocking_reasons.extend(reason);
    }

    fn closed(&mut self, session: &mut Session<'_>) {
        // Pods that were only promised a node wait for room as before. Without this the job would seem to hold its own request.
        for status in [Status::Pipelined, Status::Allocated] {
            let tasks: Vec<TaskId> = session.tx.snapshot.tasks_of(self.job, status).collect();
            for task in tasks {
                session.tx.take_off(task);
            }
        }
        let reasons = &mut self.diagnosis.blocking_reasons;
        reasons.extend(blocking_reason::too_few(session.tx.tiers(), self.job));
        reasons.extend(blocking_reason::limited(session, self.job));
        self.diagnosis.feasibility = feasibility::feasibility_of(session, self.job);
    }
}

/// An amount of a resource as people write it.
fn written(name: &str, amount: f64) -> Quantity {
    use super::objects::quantity;
    use evictd_pod::resources::{CPU, EPHEMERAL_STORAGE, MEMORY, PODS};
    #[expect(
        clippy::cast_possible_truncation,
        reason = "amounts came as whole numbers"
    )]
    let whole = amount.ceil() as i64;
    match name {
        CPU | MEMORY | PODS => quantity(name, amount.ceil()),
        // They count in thousandths.
        EPHEMERAL_STORAGE => Quantity::bytes(whole / 1000),
        name if name.starts_with("hugepages-") => Quantity::bytes(whole / 1000),
        _ => Quantity::milli(whole),
    }
}
