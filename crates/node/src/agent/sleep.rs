//! How long the main loop sleeps between two cycles.

use super::reclaim::RECLAIM_INTERVAL;
use crate::sampling_interval::SamplingInterval;
use evictd_eviction::Housekeeper;
use evictd_kernel::signals::Sample;
use evictd_signals::{Observation, Signal};
use jiff::Timestamp;
use std::time::Duration;

/// While a pod is being terminated, a cycle runs at least this often. Its end wakes the loop at once; each cycle
/// before takes processor time from the processes that are freeing their memory.
const TERMINATING_INTERVAL: Duration = Duration::from_millis(100);
/// If there is a threshold on pressure, a cycle runs at least this often. The kernel updates its averages every two
/// seconds.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(1);

/// Computes the sleep, and keeps how near each signal was to its thresholds.
pub(super) struct Sleep {
    interval: SamplingInterval,
    /// Each threshold of an observed signal: the observation, and the threshold's value.
    watched: Vec<(Signal, Observation, i64)>,
}

impl Sleep {
    /// `longest` is the configured `housekeepingInterval`.
    pub(super) fn new(longest: Duration) -> Self {
        Self {
            interval: SamplingInterval::new(longest),
            watched: Vec::new(),
        }
    }

    /// Another `housekeepingInterval`.
    pub(super) fn set_longest(&mut self, longest: Duration) {
        self.interval = SamplingInterval::new(longest);
    }

    /// How long to sleep: less if a threshold is near, a grace period ends soon, a pod is being terminated or something
    /// is being reclaimed.
    pub(super) fn after(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        sample: &Sample,
        reclaims: bool,
    ) -> Duration {
        self.watched.clear();
        let thresholds = housekeeper.thresholds();
        let foreseen = thresholds.filter(|threshold| !threshold.signal.is_pressure());
        let seen = foreseen.filter_map(|threshold| {
            let seen = *sample.observations.get(threshold.signal)?;
            Some((
                threshold.signal,
                seen,
                threshold.value.at(seen.capacity).value(),
            ))
        });
        self.watched.extend(seen);
        let mut sleep = self
            .interval
            .next(now, housekeeper.forecast(), &self.watched);
        if sample
            .observations
            .iter()
            .any(|(signal, _)| signal.is_pressure())
        {
            sleep = sleep.min(PRESSURE_INTERVAL);
        }
        if housekeeper.departures().is_any_leaving() {
            sleep = sleep.min(TERMINATING_INTERVAL);
        }
        if reclaims {
            sleep = sleep.min(RECLAIM_INTERVAL);
        }
        // A decision that found no victim may be repeated then, and nothing else might wake the loop.
        if let Some(again) = housekeeper.next_decision(now) {
            sleep = sleep.min(again.duration_since(now).unsigned_abs());
        }
        for (threshold, first) in housekeeper.first_observed() {
            // A soft threshold acts when its grace period ends, not at the next regular cycle.
            let left = threshold.acts_after() - now.duration_since(first);
            if left.is_positive() {
                sleep = sleep.min(left.unsigned_abs());
            }
        }
        sleep
    }

    /// Every signal with a threshold, the one with the least room above its threshold first (as a share of its
    /// capacity); memory if there is no threshold.
    #[allow(clippy::cast_precision_loss, reason = "a comparison of shares")]
    pub(super) fn nearest(&self) -> Vec<Signal> {
        let mut rooms: Vec<(Signal, f64)> = self
            .watched
            .iter()
            .map(|(signal, seen, threshold)| {
                let room = seen.available.saturating_sub(*threshold);
                (*signal, room as f64 / seen.capacity.max(1) as f64)
            })
            .collect();
        rooms.sort_by(|(_, a), (_, b)| a.total_cmp(b));
        if rooms.is_empty() {
            return vec![Signal::MemoryAvailable];
        }
        rooms.into_iter().map(|(signal, _)| signal).collect()
    }
}
