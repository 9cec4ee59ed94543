//! The queue state of one pod, and its backoff.
use std::cmp::Reverse;
use std::sync::Arc;

use evictd_pod::wire::Time;
use jiff::{SignedDuration, Timestamp};

use super::{Pool, Settings};
use crate::plugins::{PluginName, PluginSet};

/// The order of the active queue: by priority descending, then by time, then by UID, so that the order is total (S5-005).
pub(super) type Turn = (Reverse<i32>, Time, Arc<str>);

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(super) priority: i32,
    pub(super) timestamp: Time,
    pub(super) pool: Pool,
    pub(super) attempts: u32,
    pub(super) unschedulable_count: u32,
    pub(super) consecutive_errors: u32,
    pub(super) rejectors: PluginSet,
    pub(super) pending: PluginSet,
    pub(super) gate: Option<PluginName>,
    /// The index of its profile, by which rejected pods are counted.
    pub(super) profile: u16,
    /// The end of its backoff, a whole second. It is fixed at the first use after a failure (S5-107).
    expiry: Option<Time>,
    /// When it was active for the first time. The time that it was gated before does not count (S5-099).
    arrived: Option<Time>,
}

impl Entry {
    pub(super) fn new(priority: i32, timestamp: Timestamp) -> Self {
        Self {
            priority,
            timestamp: timestamp.into(),
            pool: Pool::Active,
            attempts: 0,
            unschedulable_count: 0,
            consecutive_errors: 0,
            rejectors: PluginSet::default(),
            pending: PluginSet::default(),
            gate: None,
            profile: 0,
            expiry: None,
            arrived: None,
        }
    }

    /// Counts a failed attempt. Without rejectors it was an error (S5-007, S5-016, S5-052).
    pub(super) fn fail(&mut self, rejectors: PluginSet, pending: PluginSet, now: Timestamp) {
        self.rejectors = rejectors.or(pending);
        self.pending = pending;
        self.timestamp = now.into();
        // The backoff is computed anew from the new time.
        self.expiry = None;
        if self.rejectors.is_empty() {
            self.consecutive_errors = self.consecutive_errors.saturating_add(1);
        } else {
            self.consecutive_errors = 0;
            self.unschedulable_count = self.unschedulable_count.saturating_add(1);
        }
    }

    /// The second since 1970 in which its backoff ends, if it has one (S5-007, S5-008).
    pub(super) fn expiry(&mut self, settings: &Settings) -> Option<i64> {
        self.end(settings).map(|end| end.timestamp().as_second())
    }

    fn end(&mut self, settings: &Settings) -> Option<Time> {
        let failures = if self.consecutive_errors > 0 {
            self.consecutive_errors
        } else {
            self.unschedulable_count
        };
        if failures == 0 || settings.max_backoff.is_zero() {
            return None;
        }
        if self.expiry.is_none() {
            // After many failures the factor overflows; then the backoff is the longest one.
            let factor = 1_i32.checked_shl(failures - 1).filter(|factor| *factor > 0);
            let duration = factor.and_then(|factor| settings.initial_backoff.checked_mul(factor));
            let duration = duration.map_or(settings.max_backoff, |duration| {
                duration.min(settings.max_backoff)
            });
            let second = self
                .timestamp
                .timestamp()
                .checked_add(duration)
                .unwrap_or(Timestamp::MAX)
                .as_second();
            self.expiry = Timestamp::from_second(second).ok().map(Time::from);
        }
        self.expiry
    }

    /// The end of its backoff, once [`Self::expiry`] has fixed it.
    pub(super) fn end_of_backoff(&self) -> Option<Timestamp> {
        self.expiry.map(Time::timestamp)
    }

    /// It may be tried from now on.
    pub(super) fn arrive(&mut self, now: Timestamp) {
        self.arrived.get_or_insert(now.into());
    }

    pub(crate) fn arrived(&self) -> Option<Timestamp> {
        self.arrived.map(Time::timestamp)
    }

    /// Its position among the pods that back off, in seconds.
    pub(super) fn backoff_order(&self) -> i64 {
        self.expiry
            .unwrap_or(self.timestamp)
            .timestamp()
            .as_second()
    }

    /// Whether its backoff ends in this second or later (S5-008).
    pub(super) fn backs_off(&mut self, now: Timestamp, settings: &Settings) -> bool {
        self.expiry(settings)
            .is_some_and(|expiry| expiry >= now.as_second())
    }

    /// Whether it has waited longer than the limit for an event (S5-010).
    pub(super) fn is_overdue(&self, now: Timestamp, limit: SignedDuration) -> bool {
        now.duration_since(self.timestamp.timestamp()) > limit
    }
}
