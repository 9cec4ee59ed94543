//! Finished jobs are deleted after a while (S6-054).

use evictd_batch_objects::Job;
use jiff::{SignedDuration, Timestamp};

/// When a finished job is to be deleted; `None` while it is not finished, is being deleted, or is to be kept. Before the
/// deletion the job is read again and asked again, and only the job with this UID may go.
pub fn expires(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    let finished = job.status.state.phase.or_pending().is_final();
    if !finished || job.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let since = job.status.state.last_transition_time?;
    let lifetime = SignedDuration::from_secs(i64::from(seconds));
    since.checked_add(lifetime).ok()
}
