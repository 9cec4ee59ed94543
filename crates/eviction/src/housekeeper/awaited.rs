//! Decisions on disks that wait for figures: of a container that has just begun the runtime has none for 10 s.

use crate::watched::Watched;
use evictd_signals::{Observations, Signal, SignalMap};
use jiff::{SignedDuration, Timestamp};

/// The longest wait: runtimes count writable layers every 10 s.
const LONGEST: SignedDuration = SignedDuration::from_secs(10);
/// The wait ends this long before the signal is exhausted, because a pod takes time to end.
const RESERVE: SignedDuration = SignedDuration::from_secs(1);

/// Decisions that wait for usage, and the available amounts when signals crossed their thresholds.
#[derive(Debug, Clone, Default)]
pub(super) struct Awaited {
    /// Since when the decision on a signal waits.
    since: SignalMap<Option<Timestamp>>,
    /// The available amount when a threshold on the signal was first met.
    at_crossing: SignalMap<Option<i64>>,
}

impl Awaited {
    pub(super) fn waits(&self, signal: Signal) -> bool {
        self.since[signal].is_some()
    }

    /// Since when the decision on a signal waits for figures of usage.
    pub(super) fn first(&self) -> Option<(Signal, Timestamp)> {
        let mut since = self.since.into_iter();
        since.find_map(|(signal, since)| Some((signal, since?)))
    }

    /// Notes the available amounts as signals cross their thresholds.
    pub(super) fn note_crossings(&mut self, watched: &[Watched], observations: &Observations) {
        let mut met = SignalMap::<bool>::default();
        for watched in watched {
            met[watched.threshold.signal] |= watched.first_observed.is_some();
        }
        for (signal, met) in met {
            let before = &mut self.at_crossing[signal];
            let seen = observations.get(signal).map(|seen| seen.available);
            // The first amount is kept: the loss is counted from the crossing, not from the last cycle.
            *before = before.or(seen).filter(|_| met);
            let since = &mut self.since[signal];
            *since = since.filter(|_| met);
        }
    }

    /// The decision on this signal waits; when the wait is over, the loss of the filesystem since the crossing.
    pub(super) fn wait(
        &mut self,
        now: Timestamp,
        signal: Signal,
        available: i64,
        exhausted_in: Option<SignedDuration>,
    ) -> Option<i64> {
        let since = self.since[signal].unwrap_or(now);
        let exhausted = exhausted_in.is_some_and(|left| left <= RESERVE);
        if !exhausted && available > 0 && now.duration_since(since) < LONGEST {
            self.since[signal] = Some(since);
            return None;
        }
        self.end(signal);
        let before = self.at_crossing[signal].unwrap_or(available);
        Some(before.saturating_sub(available).max(0))
    }

    /// The decision on this signal need not wait.
    pub(super) fn end(&mut self, signal: Signal) {
        self.since[signal] = None;
    }
}
