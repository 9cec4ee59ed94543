//! Deletes finished jobs when their `ttlSecondsAfterFinished` is over (S6-054).

use super::calls::{Calls, ObjectId};
use evictd_batch_jobs::job::expires;
use evictd_cluster_client::{ApiError, Backoff, chance};
use jiff::Timestamp;
use std::time::Duration;
use tracing::{info, warn};

/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_secs(30);

pub(super) fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), MAX_BACKOFF)
}

/// Deletes a job whose TTL is over.
pub(super) async fn delete_expired(calls: Calls, job: ObjectId) {
    let mut backoff = backoff();
    loop {
        let error = match try_delete(&calls, &job).await {
            Ok(Outcome::Deleted) => {
                info!("deleted the finished job {job}: its ttlSecondsAfterFinished is over");
                return;
            }
            Ok(Outcome::NotExpired) => return,
            Err(error) => error,
        };
        // Another object has its name now, or none has.
        if error
            .status()
            .is_some_and(|status| matches!(status.code, 404 | 409))
        {
            return;
        }
        warn!("cannot delete the finished job {job}: {error}");
        tokio::time::sleep(backoff.next(chance())).await;
    }
}

enum Outcome {
    Deleted,
    NotExpired,
}

/// Reads the job again before the deletion: its TTL may have changed since the watch showed it.
async fn try_delete(calls: &Calls, job: &ObjectId) -> Result<Outcome, ApiError> {
    let stored = calls.job(&job.namespace, &job.name).await?;
    let same = stored.filter(|stored| *stored.metadata.uid == *job.uid);
    let expiry = same.and_then(|stored| expires(&stored));
    if expiry.is_none_or(|time| time > Timestamp::now()) {
        return Ok(Outcome::NotExpired);
    }
    calls.delete_job(job).await?;
    Ok(Outcome::Deleted)
}
