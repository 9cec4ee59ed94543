//! Which time of a schedule a cron job is at (S6-238).

use crate::objects::CronJob;
use crate::schedule::Schedule;
use jiff::{SignedDuration, Timestamp};

/// Later than the next time, for clocks that differ.
const LATER: SignedDuration = SignedDuration::from_millis(100);
/// More missed times than this are reported.
const MANY: i64 = 100;
/// Go's zero time, which stands for none.
const ZERO_SECONDS: i64 = -62_135_596_800;

/// The most recent time that is due.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// The time.
    pub(super) most_recent: Option<Timestamp>,
    /// Whether times were missed since the last job.
    any: bool,
    /// Whether so many were missed that it is reported.
    pub(super) many: bool,
}

/// A schedule whose times do not advance, such as 31 February.
#[derive(Debug, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub(super) struct NeverDue;

fn next(schedule: &Schedule, after: Timestamp) -> Timestamp {
    let zero = Timestamp::from_second(ZERO_SECONDS).unwrap_or(Timestamp::MIN);
    schedule.next(after).unwrap_or(zero)
}

/// The time of the last job, or else of the cron job's creation.
fn last(cron: &CronJob, now: Timestamp) -> Timestamp {
    let created = cron.metadata.creation_timestamp;
    let created = created.map(evictd_pod::wire::Time::timestamp);
    cron.status.last_schedule_time.or(created).unwrap_or(now)
}

fn since(earliest: Timestamp, now: Timestamp, schedule: &Schedule) -> Result<Missed, NeverDue> {
    let first = next(schedule, earliest);
    let second = next(schedule, first);
    if now < first {
        return Ok(Missed::default());
    }
    if now < second {
        return Ok(Missed {
            most_recent: Some(first),
            ..Missed::default()
        });
    }
    let between = second.duration_since(first).as_secs();
    if between < 1 {
        return Err(NeverDue);
    }
    let missed = now.duration_since(first).as_secs() / between + 1;
    // The distance of the first two times is a guess where they are irregular: begin one earlier and go on from there.
    let start = SignedDuration::from_secs((missed - 2).saturating_mul(between));
    let start = first.checked_add(start).unwrap_or(first);
    let mut most_recent = None;
    let mut time = schedule.next(start);
    while let Some(due) = time.filter(|time| *time <= now) {
        most_recent = Some(due);
        time = schedule.next(due);
    }
    Ok(Missed {
        most_recent,
        any: true,
        many: missed > MANY,
    })
}

/// The most recent time that is due now, and not later than the deadline.
pub(super) fn due(cron: &CronJob, now: Timestamp, schedule: &Schedule) -> Result<Missed, NeverDue> {
    let mut earliest = last(cron, now);
    if let Some(deadline) = cron.spec.starting_deadline_seconds {
        let deadline = now.checked_sub(SignedDuration::from_secs(deadline));
        earliest = earliest.max(deadline.unwrap_or(earliest));
    }
    let mut missed = since(earliest, now, schedule)?;
    missed.most_recent = missed.most_recent.filter(|time| *time <= now);
    Ok(missed)
}

/// How long it is to the next time.
pub(super) fn until_next(cron: &CronJob, now: Timestamp, schedule: &Schedule) -> SignedDuration {
    let from = match since(last(cron, now), now, schedule) {
        Ok(missed) => missed
            .most_recent
            .unwrap_or_else(|| if missed.any { now } else { last(cron, now) }),
        Err(NeverDue) => now,
    };
    let wait = next(schedule, from).duration_since(now);
    wait.checked_add(LATER).unwrap_or(wait)
}
