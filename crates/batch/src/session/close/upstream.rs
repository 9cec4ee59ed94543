//! What Kubernetes' own groups are told.

use crate::session::Session;
use crate::session::model::{COMPLETED, Job, RUNNING};
use crate::session::outcome::{Outcome, UpstreamOutcome};

impl Session<'_> {
    /// Of each such group what became of it; nothing of one of which there is nothing to say yet.
    pub(super) fn report_upstream(&self, outcome: &mut Outcome) {
        for (index, job) in self.model.jobs.iter().enumerate() {
            let Some(own) = &job.upstream else { continue };
            let goes = || {
                let mut evicted = self.evicted.iter();
                evicted.any(|(task, _)| self.model.tasks[*task].job == index)
            };
            let told = if let Some(why) = &own.left_out {
                Some(UpstreamOutcome::Unschedulable(why.clone()))
            } else if !job.is_live {
                None
            } else if own.goes_whole && goes() {
                Some(UpstreamOutcome::Preempted)
            } else {
                said_of(job)
            };
            if let Some(told) = told {
                let key = job.key.to_string();
                outcome.upstream_pod_groups.insert(key, told);
            }
        }
    }
}

/// What a session has said of a job; without plugin gang its phase says it.
fn said_of(job: &Job) -> Option<UpstreamOutcome> {
    let mut said = job.conditions.iter().zip(&job.said_now);
    let said = said.find_map(|(condition, now)| now.then_some(condition));
    match said {
        Some(said) if said.kind == "Unschedulable" => {
            Some(UpstreamOutcome::Unschedulable(said.message.clone()))
        }
        Some(_) => Some(UpstreamOutcome::Scheduled),
        None => {
            matches!(job.phase.as_str(), RUNNING | COMPLETED).then_some(UpstreamOutcome::Scheduled)
        }
    }
}
