//! Decisions that an earlier run of the daemon did not finish, as the history shows them.

use crate::delivery::{Notice, Way};
use evictd_decision::record::{Kind, Publication, Record};
use evictd_departures::{Departure, NoticeState, Purpose, UnfinishedDecision};
use evictd_signals::NodeCondition;
use jiff::SignedDuration;
use std::time::Duration;

/// A decision whose record is not complete.
#[derive(Debug)]
pub struct Unfinished {
    /// Without the ranking.
    record: Record,
    pod: String,
    uid: String,
    grace_period_seconds: i64,
}

impl Unfinished {
    /// Reads a record; `None` if it lacks a field that is needed to finish the decision.
    pub fn read(record: &Record) -> Option<Self> {
        let who = record.pod.clone().zip(record.uid.clone());
        let Some(((pod, uid), grace_period_seconds)) = who.zip(record.grace_period_seconds) else {
            let id = &record.id;
            tracing::warn!(
                "decision {id} was not finished and cannot be continued: its record lacks pod, uid or grace"
            );
            return None;
        };
        Some(Self {
            record: record.clone().essential(),
            pod,
            uid,
            grace_period_seconds,
        })
    }

    /// The pod that was leaving, and the notice that may not have been sent. `boot_id` is the present one.
    pub(super) fn decision(
        self,
        boot_id: &str,
        least_grace: Duration,
    ) -> (UnfinishedDecision, Option<Notice>) {
        let record = self.record;
        let asked = u64::try_from(self.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(least_grace);
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let signal = || record.signal.clone().into_owned();
        let purpose = match (record.kind.cause(), record.kind) {
            (Some(cause), _) => Purpose::Eviction {
                cause,
                signal: signal(),
                crossed_at: record.time,
                clear_at: record.time,
            },
            (None, Kind::Preemption) => Purpose::Preemption { resource: signal() },
            (None, _) => Purpose::Rejection {
                conditions: record
                    .signal
                    .split(',')
                    .filter_map(NodeCondition::parse)
                    .collect(),
            },
        };
        let name = (record.id, self.pod, self.uid);
        let mut departure = Departure::new(name, purpose, record.time, grace);
        let notice = match record.publication {
            None => None,
            Some(Publication::Waiting { notice }) => {
                departure.notice_state = NoticeState::Pending;
                notice.map(|notice| *notice)
            }
            Some(_) => {
                departure.notice_state = NoticeState::Sent;
                None
            }
        };
        let decision = UnfinishedDecision {
            departure,
            ended: record.outcome.is_some(),
            rebooted: record.boot_id.unwrap_or_default() != boot_id,
        };
        (decision, notice)
    }
}

/// Reduces the grace period of a deletion by evictd to its rest.
pub(super) fn shorten(notice: &mut Notice, left: Duration) {
    if let Way::Delete(seconds) = &mut notice.way {
        *seconds = left.as_secs();
    }
}
