//! The outcome of Kubernetes' own pod groups.

use crate::session::Session;
use crate::session::outcome::{Outcome, UpstreamOutcome};
use crate::session::snapshot::Job;
use evictd_batch_objects::{PodGroupConditionType, PodGroupPhase};

/// Reports the outcome of each such group that has one.
pub(super) fn report_upstream(session: &Session<'_>, outcome: &mut Outcome) {
    for (index, job) in session.tx.snapshot.jobs.iter().enumerate() {
        let Some(upstream) = &job.upstream else {
            continue;
        };
        let goes = || {
            let mut evicted = session.tx.evicted.iter();
            evicted.any(|(task, _)| session.tx.snapshot.tasks[*task].job.index() == index)
        };
        let report = if let Some(why) = &upstream.left_out {
            Some(UpstreamOutcome::Unschedulable(why.clone()))
        } else if !job.is_live {
            None
        // Otherwise some of its pods may stay, so that the group is not preempted.
        } else if upstream.evicted_as_whole && goes() {
            Some(UpstreamOutcome::Preempted)
        } else {
            condition_of(job)
        };
        if let Some(report) = report {
            let key = job.key.to_string();
            outcome.upstream_pod_groups.insert(key, report);
        }
    }
}

/// The condition that this session set; without plugin gang the phase decides.
fn condition_of(job: &Job) -> Option<UpstreamOutcome> {
    let mut said = job.conditions.iter().zip(&job.set_now);
    let said = said.find_map(|(condition, now)| now.then_some(condition));
    match said {
        Some(said) if said.is(PodGroupConditionType::Unschedulable) => {
            Some(UpstreamOutcome::Unschedulable(said.message.clone()))
        }
        Some(_) => Some(UpstreamOutcome::Scheduled),
        None => matches!(job.phase, PodGroupPhase::Running | PodGroupPhase::Completed)
            .then_some(UpstreamOutcome::Scheduled),
    }
}
