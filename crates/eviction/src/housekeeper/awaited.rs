//! Decisions on disks that wait for figures: of a container that has just begun the runtime has none for 10 s.

use super::Housekeeper;
use crate::{
    Observations, SignalMap, Usage,
    decision::{ActingThreshold, RankedPod},
    rules::Figures,
    signal::Signal,
};
use evictd_pod::{Pod, Quantity};
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;

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
}

impl Housekeeper {
    /// Notes the available amounts as signals cross their thresholds.
    pub(super) fn note_crossings(&mut self, observations: &Observations) {
        let mut met = SignalMap::<bool>::default();
        for watched in &self.watched {
            met[watched.threshold.signal] |= watched.first_observed.is_some();
        }
        for (signal, met) in met {
            let before = &mut self.awaited.at_crossing[signal];
            let seen = observations.get(signal).map(|seen| seen.available);
            // The first amount is kept: the loss is counted from the crossing, not from the last cycle.
            *before = before.or(seen).filter(|_| met);
            let since = &mut self.awaited.since[signal];
            *since = since.filter(|_| met);
        }
    }

    /// The ranking by which to decide; `None` while a figure that could change the choice may become known soon. When
    /// the wait is over, the loss of the filesystem since the crossing counts for pods with unknown parts.
    pub(super) fn with_awaited(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        ranked: Vec<RankedPod>,
    ) -> Option<Vec<RankedPod>> {
        let acting = self.acting_threshold()?;
        let signal = acting.threshold.signal;
        if !self.is_open(now, &acting, pods, &ranked) {
            self.awaited.since[signal] = None;
            return Some(ranked);
        }
        let since = self.awaited.since[signal].unwrap_or(now);
        let soon = |left| left <= RESERVE;
        let exhausted = self.forecast().exhausted_in(now, signal).is_some_and(soon);
        if !exhausted && acting.observed.available > 0 && now.duration_since(since) < LONGEST {
            self.awaited.since[signal] = Some(since);
            return None;
        }
        self.awaited.since[signal] = None;
        let before = self.awaited.at_crossing[signal].unwrap_or(acting.observed.available);
        let lost = before.saturating_sub(acting.observed.available).max(0);
        Some(self.with_ranking(now, signal, |ranking| ranking.of_losing(pods, usage, lost)))
    }

    /// Whether a figure that is unknown yet could change the victim, or whether there is one.
    fn is_open(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> bool {
        let unknown = |row: &RankedPod| row.partly_unknown && row.spared.is_none();
        // For the kubelet an unknown figure is zero (S1-060), so it never waits for one.
        if self.rules.figures == Figures::Kubelet || !ranked.iter().any(unknown) {
            return false;
        }
        let suffices = || {
            self.shares(now, acting, pods, ranked)
                .suffice(Quantity::ZERO)
        };
        let signal = acting.threshold.signal;
        let open = self.with_ranking(now, signal, |ranking| ranking.is_open(ranked));
        open || (self.rules.requires_relief && !suffices())
    }

    /// Since when the decision on a signal waits for figures of usage.
    pub fn awaits_figures(&self) -> Option<(Signal, Timestamp)> {
        let mut since = self.awaited.since.into_iter();
        since.find_map(|(signal, since)| Some((signal, since?)))
    }
}
