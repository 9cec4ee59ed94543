//! How near a node is to its thresholds, in a band for schedulers: a condition is close to being raised, or it is not. It
//! changes seldom, so that thousands of calm nodes write nothing.

use crate::{ConditionMap, Observations, Threshold};
use evictd_pod::Quantity;
use jiff::{SignedDuration, Timestamp};

/// A condition becomes close when no more than this is left of a signal, in hundredths of its threshold.
const CLOSE: i64 = 200;
/// It stays close until this is left.
const FAR: i64 = 250;
/// The least time between two changes.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
/// How long a finding must last: a scheduler cannot use a peak that is over before the scheduler reads it.
const SETTLED: SignedDuration = SignedDuration::from_secs(10);

/// Which conditions are close.
#[derive(Debug, Clone, Copy, Default)]
pub struct Headroom {
    close: ConditionMap<bool>,
    changed: Option<Timestamp>,
    /// The last finding, and since when it holds.
    found: Option<(ConditionMap<bool>, Timestamp)>,
}

impl Headroom {
    /// Applies an observation and returns the conditions that are close from now on. Signals that were not observed and
    /// shares of time do not count.
    pub fn observe<'t>(
        &mut self,
        now: Timestamp,
        thresholds: impl Iterator<Item = &'t Threshold> + Clone,
        seen: &Observations,
    ) -> ConditionMap<bool> {
        let mut close = ConditionMap::<bool>::default();
        for threshold in thresholds.filter(|threshold| !threshold.signal.is_pressure()) {
            let (Some(condition), Some(left)) = (
                threshold.signal.condition(),
                seen.of(threshold.signal, threshold.value),
            ) else {
                continue;
            };
            if !left.is_measured() {
                continue;
            }
            let limit = threshold.value.at(left.capacity);
            // Two limits, so that a signal that sways around one of them does not change the band each time.
            let share = if self.close[condition] { FAR } else { CLOSE };
            close[condition] |= is_within(left.available, limit, share);
        }
        let known = self.found.filter(|(found, _)| *found == close);
        let (_, since) = *self.found.insert(known.unwrap_or((close, now)));
        let settled = now.duration_since(since) >= SETTLED;
        // Each change is a write to the API server, on every node of a cluster.
        let rests = self
            .changed
            .is_some_and(|then| now.duration_since(then).abs() < PAUSE);
        if close != self.close && settled && !rests {
            self.close = close;
            self.changed = Some(now);
        }
        self.close
    }
}

/// Whether no more is left than so many hundredths of a limit.
fn is_within(left: i64, limit: Quantity, hundredths: i64) -> bool {
    i128::from(left) * 100 <= i128::from(limit.value()) * i128::from(hundredths)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NodeCondition, Observation, Signal, ThresholdMaps};

    const MIB: i64 = 1 << 20;

    /// Whether memory is close after each of these: second and MiB left.
    fn memory(steps: &[(i64, i64)]) -> Vec<bool> {
        let hard = [("memory.available", "100Mi"), ("nodefs.available", "10%")];
        let hard = hard.map(|(signal, value)| (signal.to_owned(), value.to_owned()));
        let thresholds = ThresholdMaps {
            hard: hard.into(),
            ..ThresholdMaps::default()
        };
        let thresholds = thresholds.parse().unwrap();
        let mut headroom = Headroom::default();
        let steps = steps.iter().map(|(second, left)| {
            let mut seen = Observations::default();
            let observation = Observation {
                available: left * MIB,
                capacity: 4096 * MIB,
                time: None,
            };
            seen.set(Signal::MemoryAvailable, Some(observation));
            let now = Timestamp::from_second(*second).unwrap();
            let close = headroom.observe(now, thresholds.iter(), &seen);
            assert!(!close[NodeCondition::DiskPressure], "it was not observed");
            close[NodeCondition::MemoryPressure]
        });
        steps.collect()
    }

    #[test]
    fn it_is_close_at_twice_the_threshold_and_far_beyond_two_and_a_half_times() {
        let steps = [201, 200, 250, 251, 201, 0].into_iter().enumerate();
        let steps = steps.flat_map(|(index, left)| {
            let second = i64::try_from(index).unwrap() * 100;
            [(second, left), (second + 10, left)]
        });
        let told = memory(&steps.collect::<Vec<_>>());
        let settled: Vec<bool> = told.into_iter().skip(1).step_by(2).collect();
        assert_eq!(settled, [false, true, true, false, false, true]);
    }

    #[test]
    fn it_changes_at_most_once_a_minute() {
        let steps = [
            (0, 150),
            (10, 150),
            (20, 900),
            (69, 900),
            (70, 900),
            (129, 150),
            (140, 150),
        ];
        let told = [false, true, true, true, false, false, true];
        assert_eq!(memory(&steps), told);
    }

    #[test]
    fn a_short_peak_is_not_reported() {
        let steps = [
            (0, 900),
            (1, 150),
            (10, 120),
            (11, 900),
            (12, 150),
            (21, 150),
            (22, 150),
        ];
        let told = [false, false, false, false, false, false, true];
        assert_eq!(memory(&steps), told);
    }
}
