//! The pending jobs of the same queue that come first.

use crate::session::Session;
use crate::session::plugins::Tiers;
use crate::session::snapshot::Job;
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::task::Status;
use evictd_batch_objects::PodGroupPhase;
use serde::Serialize;

/// A job that comes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Ahead {
    /// Its pod group, `namespace/name`.
    pub pod_group: String,
    /// The plugin that orders them; absent if their age or names decide.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<&'static str>,
    /// Why, for people.
    pub why: String,
    /// The priority of its class.
    pub priority: i32,
    /// How many of its pods wait.
    pub waiting: i32,
}

fn waits(job: &Job) -> bool {
    job.phase != PodGroupPhase::Completed && (job.is_pending() || job.count(Status::Pending) > 0)
}

/// The jobs before one, in order.
pub(super) fn ahead_of(session: &Session<'_>, job: JobId) -> Vec<Ahead> {
    let queue = session.tx.snapshot.jobs[job].queue;
    let others = session.tx.snapshot.live_jobs();
    let others = others.filter(|(other, other_job)| {
        *other != job
            && other_job.queue == queue
            && waits(other_job)
            && session.tx.tiers().job_before(*other, job)
    });
    let mut others: Vec<JobId> = others.map(|(other, _)| other).collect();
    // The order is not a total one for every configuration.
    let count = |one: JobId| {
        let before = others
            .iter()
            .filter(|other| session.tx.tiers().job_before(**other, one));
        before.count()
    };
    let mut counted: Vec<(usize, JobId)> =
        others.iter().map(|other| (count(*other), *other)).collect();
    // The number of jobs before each one gives an order even where plugins contradict each other.
    counted.sort_by_key(|(count, other)| (*count, &session.tx.snapshot.jobs[*other].key));
    others = counted.into_iter().map(|(_, other)| other).collect();
    others
        .into_iter()
        .map(|other| ahead(session.tx.tiers(), other, job))
        .collect()
}

fn ahead(tiers: Tiers<'_>, other: JobId, job: JobId) -> Ahead {
    let (theirs, ours) = (&tiers.snapshot.jobs[other], &tiers.snapshot.jobs[job]);
    let decides = tiers.job_order_plugin(other, job);
    let why = match decides {
        Some((name, plugin)) => plugin
            .job_order_message(tiers.snapshot, other, job)
            .unwrap_or_else(|| format!("plugin {} says so", name.as_str())),
        None if theirs.created == ours.created => {
            "made at the same time; the names decide".to_owned()
        }
        None => "made earlier".to_owned(),
    };
    Ahead {
        pod_group: theirs.key.to_string(),
        plugin: decides.map(|(name, _)| name.as_str()),
        why,
        priority: theirs.priority,
        waiting: theirs.count(Status::Pending),
    }
}
