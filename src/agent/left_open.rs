//! What an earlier run of the daemon has decided and not finished, as the history tells it.

use crate::{
    outbox::{Notice, Way},
    publish::ledger::WAITING,
};
use evictd_eviction::{
    Cause,
    departures::{Departure, Found, Purpose, Telling},
};
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;
use std::time::Duration;

/// A decision that the history leaves open.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOpen {
    id: String,
    pod: String,
    uid: String,
    kind: Kind,
    signal: String,
    time: Timestamp,
    grace_period_seconds: i64,
    #[serde(default)]
    boot_id: String,
    outcome: Option<Value>,
    publication: Option<Told>,
}

/// What a record says that its pod went for.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Kind {
    Hard,
    Soft,
    LocalStorage,
    Admission,
    Preemption,
}

#[derive(Debug, Deserialize)]
struct Told {
    state: String,
    notice: Option<Notice>,
}

impl LeftOpen {
    /// As its record has it; `None` where it has not what is needed.
    pub fn read(record: &Value) -> Option<Self> {
        let read = Self::deserialize(record);
        if let Err(error) = &read {
            let id = &record["id"];
            tracing::warn!("decision {id} was not finished, and its record is no help: {error}");
        }
        read.ok()
    }

    /// The pod on its way out, and the notice that nobody is known to have got. `boot_id` is that of now.
    pub(super) fn found(self, boot_id: &str, least_grace: Duration) -> (Found, Option<Notice>) {
        let asked = u64::try_from(self.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(least_grace);
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let eviction = |cause| Purpose::Eviction {
            cause,
            signal: self.signal.clone(),
            crossed_at: self.time,
            clear_at: self.time,
        };
        let purpose = match self.kind {
            Kind::Hard => eviction(Cause::Hard),
            Kind::Soft => eviction(Cause::Soft),
            Kind::LocalStorage => eviction(Cause::LocalStorage),
            Kind::Admission => Purpose::Rejection {
                conditions: self
                    .signal
                    .split(',')
                    .filter_map(evictd_eviction::NodeCondition::parse)
                    .collect(),
            },
            Kind::Preemption => Purpose::Preemption {
                resource: self.signal.clone(),
            },
        };
        let name = (self.id, self.pod, self.uid);
        let mut departure = Departure::new(name, purpose, self.time, grace);
        let notice = match self.publication {
            None => None,
            Some(told) if told.state == WAITING => {
                departure.telling = Telling::Owed;
                told.notice
            }
            Some(_) => {
                departure.telling = Telling::Told;
                None
            }
        };
        let found = Found {
            departure,
            ended: self.outcome.is_some(),
            rebooted: self.boot_id != boot_id,
        };
        (found, notice)
    }
}

/// A pod that is deleted by us has what is left of its grace.
pub(super) fn shorten(notice: &mut Notice, left: Duration) {
    if let Way::Delete(seconds) = &mut notice.way {
        *seconds = left.as_secs();
    }
}
