//! The rate at which a signal falls, and when it is exhausted at that rate.
//!
//! A single jump is no trend: the fastest step between the last observations is left out. While too few steps are
//! known, there is no rate, and no forecast either: unknown is not "never".

use crate::{Observations, Signal, SignalMap};
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

/// The number of kept readings.
const READINGS: usize = 8;
/// Readings that are nearer to each other say little about a rate.
const NEAREST: SignedDuration = SignedDuration::from_millis(20);
/// Readings that are farther apart do not show the present rate.
const FARTHEST: SignedDuration = SignedDuration::from_secs(60);
/// A rate is taken over at least this time: programs take memory in bursts.
const SHORTEST: SignedDuration = SignedDuration::from_millis(120);
/// A jump between two readings is no rate; a second step has to confirm it.
const FEWEST_STEPS: usize = 2;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// How fast each signal falls. The housekeeper feeds it with every observation; see
/// `Housekeeper::forecast`.
#[derive(Debug, Clone, Default)]
pub struct Forecast {
    trends: SignalMap<Trend>,
}

/// The change between the last two observations of a signal, however near they are to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LastStep {
    /// When the last one was measured.
    pub at: Timestamp,
    /// How much less was available than before; zero or negative while it rises, and after a single observation.
    pub fell: i128,
    /// The nanoseconds between the two; positive.
    pub within: i128,
}

impl Forecast {
    /// Adds the available amount of each signal. A figure that was not renewed changes nothing.
    pub fn observe(&mut self, now: Timestamp, observations: &Observations) {
        for (signal, seen) in observations.iter() {
            self.trends[signal].observe(seen.time.unwrap_or(now), seen.available);
        }
    }

    /// By how much the signal falls, in its unit (bytes, inodes, processes) per second; always positive. `None` while
    /// it does not fall, while that is not known, and for shares of time.
    pub fn falls_by(&self, signal: Signal) -> Option<i64> {
        if signal.is_pressure() {
            return None;
        }
        let rate = self.trends[signal].rate()?;
        (rate < 0).then(|| rate.saturating_neg())
    }

    /// The time from `now` until the signal is exhausted, at the rate at which it falls; zero if that moment is past.
    /// `None` under the conditions of [`Forecast::falls_by`].
    pub fn exhausted_in(&self, now: Timestamp, signal: Signal) -> Option<SignedDuration> {
        self.reaches_in(now, signal, 0)
    }

    /// The time from `now` until only `level` of the signal is left, in its unit; zero if that moment is past. `None`
    /// under the conditions of [`Forecast::falls_by`].
    pub fn reaches_in(&self, now: Timestamp, signal: Signal, level: i64) -> Option<SignedDuration> {
        let rate = self.falls_by(signal)?;
        self.falls_to(now, signal, level, (i128::from(rate), NANOS_PER_SECOND))
    }

    /// The same at the rate of the last step alone, which may be a jump. For preparations that must be ready in time.
    pub fn may_reach_in(
        &self,
        now: Timestamp,
        signal: Signal,
        level: i64,
    ) -> Option<SignedDuration> {
        let step = self.last_step(signal).filter(|step| step.fell > 0)?;
        self.falls_to(now, signal, level, (step.fell, step.within))
    }

    /// The time from `now` until the signal has fallen to `level`, while it falls by `fell` within this many
    /// nanoseconds.
    fn falls_to(
        &self,
        now: Timestamp,
        signal: Signal,
        level: i64,
        (fell, within): (i128, i128),
    ) -> Option<SignedDuration> {
        let latest = self.trends[signal].latest?;
        let left = i128::from(latest.value).saturating_sub(i128::from(level));
        let nanos = left.max(0).saturating_mul(within) / fell;
        let left = SignedDuration::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        // The time since the observation has passed already; one from the future is taken as of now.
        let since = now.duration_since(latest.at).max(SignedDuration::ZERO);
        Some(left.saturating_sub(since).max(SignedDuration::ZERO))
    }

    /// The last two observations of a signal; `None` before the first.
    pub fn last_step(&self, signal: Signal) -> Option<LastStep> {
        let trend = &self.trends[signal];
        let latest = trend.latest?;
        let before = trend.before.unwrap_or(latest);
        Some(LastStep {
            at: latest.at,
            fell: i128::from(before.value) - i128::from(latest.value),
            within: (latest.at.as_nanosecond() - before.at.as_nanosecond()).max(1),
        })
    }
}

/// The readings of one figure.
#[derive(Debug, Clone, Default)]
pub struct Trend {
    latest: Option<Reading>,
    /// The reading before the latest.
    before: Option<Reading>,
    /// Oldest first; none nearer to another than [`NEAREST`].
    apart: VecDeque<Reading>,
}

#[derive(Debug, Clone, Copy)]
struct Reading {
    at: Timestamp,
    value: i64,
}

impl Trend {
    /// Adds a reading; one that is not newer than the last is left out.
    pub fn observe(&mut self, at: Timestamp, value: i64) {
        if self.latest.is_some_and(|latest| at <= latest.at) {
            return;
        }
        let reading = Reading { at, value };
        self.before = self.latest.replace(reading);
        // Readings in quick succession would displace the older ones, which show the trend.
        let near = |last: &Reading| at.duration_since(last.at) < NEAREST;
        if self.apart.back().is_some_and(near) {
            return;
        }
        if self.apart.len() == READINGS {
            self.apart.pop_front();
        }
        self.apart.push_back(reading);
    }

    /// The growth of the figure per second; negative while it falls. `None` while too few readings are known. It covers
    /// the shortest meaningful time, without the fastest step in the direction of the whole.
    pub fn rate(&self) -> Option<i64> {
        let later = self.apart.iter().rev();
        let pairs = later.zip(self.apart.iter().rev().skip(1));
        let mut steps: Vec<(i128, i128)> = Vec::with_capacity(READINGS);
        for (after, before) in pairs {
            let within = after.at.duration_since(before.at);
            if within > FARTHEST || is_enough(&steps) {
                break;
            }
            let grown = i128::from(after.value) - i128::from(before.value);
            steps.push((grown, within.as_nanos().max(1)));
        }
        if !is_enough(&steps) {
            return None;
        }
        let sum = |steps: &[(i128, i128)]| {
            let all = steps.iter();
            all.fold((0, 0), |sum, step| (sum.0 + step.0, sum.1 + step.1))
        };
        let direction = sum(&steps).0.signum();
        let per_second = |(grown, within): (i128, i128)| grown * NANOS_PER_SECOND / within;
        let rates = steps.iter().enumerate();
        let fastest = rates.max_by_key(|(_, step)| per_second(**step) * direction);
        // The fastest step may be one burst, and a forecast from it would be far too early.
        if let Some((index, _)) = fastest {
            steps.remove(index);
        }
        let rate = per_second(sum(&steps)) * direction;
        let rate = rate.clamp(0, i64::MAX.into()) * direction;
        i64::try_from(rate).ok()
    }
}

/// Whether these steps, each a growth and the nanoseconds that it took, say something about a rate.
fn is_enough(steps: &[(i128, i128)]) -> bool {
    let span: i128 = steps.iter().map(|(_, within)| within).sum();
    steps.len() >= FEWEST_STEPS && span >= SHORTEST.as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Observation;
    use proptest::prelude::*;

    const MI: i64 = 1 << 20;
    const MEMORY: Signal = Signal::MemoryAvailable;

    fn at(millisecond: i64) -> Timestamp {
        Timestamp::from_millisecond(millisecond).unwrap()
    }

    fn seen(signal: Signal, available: i64) -> Observations {
        let observation = Observation {
            available,
            capacity: i64::MAX,
            time: None,
        };
        [(signal, observation)].into_iter().collect()
    }

    /// The forecast after these observations of memory: millisecond and MiB left.
    fn after(steps: &[(i64, i64)]) -> Forecast {
        let mut forecast = Forecast::default();
        for (millisecond, left) in steps {
            forecast.observe(at(*millisecond), &seen(MEMORY, left * MI));
        }
        forecast
    }

    fn millis(count: i64) -> SignedDuration {
        SignedDuration::from_millis(count)
    }

    #[test]
    fn a_signal_lasts_as_long_as_its_present_rate_allows() {
        let forecast = after(&[(0, 1000), (100, 900), (200, 800)]);
        assert_eq!(forecast.falls_by(MEMORY), Some(1000 * MI));
        let exhausted = |now| forecast.exhausted_in(at(now), MEMORY);
        assert_eq!(exhausted(200), Some(millis(800)));
        assert_eq!(exhausted(500), Some(millis(500)), "it was measured before");
        assert_eq!(exhausted(2000), Some(SignedDuration::ZERO));
        let reached = |level| forecast.reaches_in(at(200), MEMORY, level * MI);
        assert_eq!(reached(700), Some(millis(100)));
        assert_eq!(reached(900), Some(SignedDuration::ZERO), "it is below");
        assert_eq!(forecast.exhausted_in(at(200), Signal::PidAvailable), None);
    }

    #[test]
    fn a_signal_that_does_not_fall_or_is_unknown_has_no_forecast() {
        let table: [(&str, &[(i64, i64)]); 6] = [
            ("nothing", &[]),
            ("one", &[(0, 1000)]),
            ("two: it may be a jump", &[(0, 1000), (100, 500)]),
            ("steady", &[(0, 1000), (100, 1000), (200, 1000)]),
            ("it rises", &[(0, 500), (100, 700), (200, 900)]),
            ("a minute ago", &[(0, 1000), (100, 900), (60_101, 800)]),
        ];
        for (case, steps) in table {
            assert_eq!(after(steps).falls_by(MEMORY), None, "{case}");
            assert_eq!(after(steps).exhausted_in(at(0), MEMORY), None, "{case}");
        }
        let mut forecast = Forecast::default();
        for step in 0..5 {
            forecast.observe(at(step * 100), &seen(Signal::IoPsi, 1000 - step));
        }
        assert_eq!(forecast.falls_by(Signal::IoPsi), None, "a share of time");
    }

    #[test]
    fn one_jump_is_no_trend_and_a_fast_fall_is_one_soon() {
        let jump = [(0, 1000), (100, 1000), (200, 400), (300, 400), (400, 400)];
        for known in 0..=jump.len() {
            assert_eq!(after(&jump[..known]).falls_by(MEMORY), None, "{known}");
        }
        let calm = [(0, 1000), (1000, 1000), (2000, 1000), (3000, 1000)];
        let fall = [(3050, 950), (3100, 900), (3150, 850)];
        let forecast = after(&[&calm[..], &fall[..]].concat());
        assert_eq!(forecast.falls_by(MEMORY), Some(1000 * MI));
        // It is over as soon.
        let calm = [(3200, 850), (3250, 850), (3300, 850)];
        let forecast = after(&[&fall[..], &calm[..]].concat());
        assert_eq!(forecast.falls_by(MEMORY), None);
    }

    #[test]
    fn memory_that_is_taken_in_bursts_falls() {
        // 25 MiB every 50 ms, seen every 20 ms.
        let seen: Vec<(i64, i64)> = (0..20)
            .map(|look| (look * 20, 1000 - look * 20 / 50 * 25))
            .collect();
        for known in 10..seen.len() {
            let rate = after(&seen[..known]).falls_by(MEMORY).unwrap_or(0) / MI;
            assert!((150..=700).contains(&rate), "{known}: {rate}");
        }
    }

    #[test]
    fn a_figure_that_was_not_renewed_changes_nothing() {
        let steps = [(0, 1000), (100, 900), (200, 800)];
        let mut forecast = after(&steps);
        let known = forecast.last_step(MEMORY);
        let stale = Observation {
            available: 1,
            capacity: i64::MAX,
            time: Some(at(200)),
        };
        forecast.observe(at(900), &[(MEMORY, stale)].into_iter().collect());
        assert_eq!(forecast.last_step(MEMORY), known);
        assert_eq!(forecast.falls_by(MEMORY), Some(1000 * MI));
        // Nearer than what makes a rate, the last observation still counts for what is left.
        let forecast = after(&[&steps[..], &[(205, 100)]].concat());
        assert_eq!(forecast.exhausted_in(at(205), MEMORY), Some(millis(100)));
    }

    proptest! {
        #[test]
        fn a_steady_fall_is_foreseen_exactly_whatever_the_intervals(
            rate in 1_i64..1_000_000,
            pauses in prop::collection::vec(60_i64..10_000, 2..12),
        ) {
            let mut forecast = Forecast::default();
            let (mut now, start) = (0, 1_i64 << 50);
            forecast.observe(at(0), &seen(MEMORY, start));
            for pause in pauses {
                now += pause;
                forecast.observe(at(now), &seen(MEMORY, start - rate * now));
            }
            prop_assert_eq!(forecast.falls_by(MEMORY), Some(rate * 1000));
            let left = forecast.reaches_in(at(now), MEMORY, start - rate * (now + 700));
            prop_assert_eq!(left, Some(millis(700)));
        }

        #[test]
        fn absurd_figures_are_borne(
            looks in prop::collection::vec((any::<i64>(), any::<i64>(), any::<i64>()), 1..20),
        ) {
            let mut forecast = Forecast::default();
            for (nanos, available, level) in looks {
                let now = Timestamp::from_nanosecond(nanos.into()).unwrap();
                forecast.observe(now, &seen(MEMORY, available));
                prop_assert!(forecast.falls_by(MEMORY).is_none_or(|rate| rate > 0));
                let left = forecast.reaches_in(Timestamp::MAX, MEMORY, level);
                prop_assert!(left.is_none_or(|left| !left.is_negative()));
                let step = forecast.last_step(MEMORY);
                prop_assert!(step.is_none_or(|step| step.within > 0));
            }
        }
    }
}
