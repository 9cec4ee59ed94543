//! How long the main loop sleeps between two cycles.

use super::{Agent, reclaim::RECLAIM_INTERVAL};
use evictd_kernel::signals::Sample;
use jiff::Timestamp;
use std::time::Duration;

/// While a pod is being terminated, a cycle runs at least this often. Its end wakes the loop at once; each cycle
/// before takes processor time from the processes that are freeing their memory.
const TERMINATING_INTERVAL: Duration = Duration::from_millis(100);
/// If there is a threshold on pressure, a cycle runs at least this often. The kernel updates its averages every two
/// seconds.
const PRESSURE_INTERVAL: Duration = Duration::from_secs(1);

impl Agent {
    /// How long to sleep: less if a threshold is near, a grace period ends soon, or a pod is being terminated.
    pub(super) fn sleep(&mut self, now: Timestamp, sample: &Sample) -> Duration {
        self.watched.clear();
        let thresholds = self.housekeeper.thresholds();
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
        let mut sleep =
            self.sampling_interval
                .next(now, self.housekeeper.forecast(), &self.watched);
        if sample
            .observations
            .iter()
            .any(|(signal, _)| signal.is_pressure())
        {
            sleep = sleep.min(PRESSURE_INTERVAL);
        }
        if self.housekeeper.departures().is_any_leaving() {
            sleep = sleep.min(TERMINATING_INTERVAL);
        }
        if self.ports.reclaimer.is_busy() || self.ports.memory_reclaimer.is_busy() {
            sleep = sleep.min(RECLAIM_INTERVAL);
        }
        if let Some(again) = self.housekeeper.next_decision(now) {
            sleep = sleep.min(again.duration_since(now).unsigned_abs());
        }
        for (threshold, first) in self.housekeeper.first_observed() {
            let left = threshold.acts_after() - now.duration_since(first);
            if left.is_positive() {
                sleep = sleep.min(left.unsigned_abs());
            }
        }
        sleep
    }
}
