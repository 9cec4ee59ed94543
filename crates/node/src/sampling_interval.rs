//! How long the main loop may sleep before the next cycle.
//!
//! The sleep ends well before any signal can cross its next threshold. The assumed rate is the higher of two. One is
//! twice the rate at which the signal fell between the last two observations. The other is the rate at which a workload
//! may start to fill a quiet node.

use evictd_signals::{
    Observation, Signal, SignalMap, StarvedResource,
    forecast::{Forecast, LastStep},
};
use jiff::Timestamp;
use std::time::Duration;

/// The shortest sleep between two cycles. On average half of it passes before a crossing is seen. For memory it is this short
/// within 12 MiB of a threshold.
pub(crate) const SHORTEST: Duration = Duration::from_millis(3);

/// The longest sleep while a signal is below a threshold. Nothing has to be caught in time then, but a pod that may
/// be evicted can appear, and the signal can recover.
pub(crate) const CROSSED: Duration = Duration::from_secs(1);

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// How fast a quiet signal may start to fall, in its own unit per second. With many cores or disks a node can fall
/// faster; but the sleep gets shorter on the way down, and the next observation measures the actual rate.
const fn assumed_rate(signal: Signal) -> i128 {
    match signal.resource() {
        // One core fills 1.5 GB/s of small pages, and about three times that of huge ones. Pages are written before
        // they count.
        StarvedResource::Memory if matches!(signal, Signal::SwapAvailable) => 1 << 30,
        StarvedResource::Memory => 4 << 30,
        // Writers fill the page cache of a fast disk at this rate; the space is reserved before it is written.
        StarvedResource::EphemeralStorage => 2 << 30,
        // One core that creates empty files on a local filesystem.
        StarvedResource::Inodes => 100_000,
        // One core that starts threads which never end.
        StarvedResource::Pids => 20_000,
        // Averages over ten seconds cannot rise faster, in hundredths of a percent.
        StarvedResource::Io => 1000,
    }
}

/// Computes the sleep of the main loop.
#[derive(Debug, Clone)]
pub(crate) struct SamplingInterval {
    longest: Duration,
    /// Of each signal that was observed before: consecutive cycles in which it was not.
    missed: SignalMap<Option<u32>>,
}

impl SamplingInterval {
    /// `longest` is the configured `housekeepingInterval`, the sleep on a node with plenty of everything. Less than
    /// a millisecond would only waste CPU time.
    pub(crate) fn new(longest: Duration) -> Self {
        Self {
            longest: longest.max(Duration::from_millis(1)),
            missed: SignalMap::default(),
        }
    }

    /// The sleep after the cycle at `now`. `watched` has an entry for each threshold of an observed signal: the
    /// signal, its observation, and the threshold's value in the signal's unit. `forecast` has these observations.
    ///
    /// A signal that was observed before and is missing now is looked for again soon, then less and less often.
    pub(crate) fn next(
        &mut self,
        now: Timestamp,
        forecast: &Forecast,
        watched: &[(Signal, Observation, i64)],
    ) -> Duration {
        let mut sleep = self.longest;
        for missed in self.missed.values_mut().flatten() {
            *missed = missed.saturating_add(1);
        }
        for (signal, observation, threshold) in watched {
            self.missed[*signal] = Some(0);
            let headroom = i128::from(observation.available) - i128::from(*threshold);
            let step = forecast.last_step(*signal);
            sleep = sleep.min(until_crossed(*signal, headroom, step, now));
        }
        for missed in self.missed.values().flatten() {
            if let Some(doublings) = missed.checked_sub(1) {
                sleep = sleep.min(SHORTEST.saturating_mul(1_u32 << doublings.min(31)));
            }
        }
        sleep.clamp(SHORTEST.min(self.longest), self.longest)
    }
}

/// The time from `now` until the signal may in the worst case have fallen by `headroom`.
fn until_crossed(
    signal: Signal,
    headroom: i128,
    step: Option<LastStep>,
    now: Timestamp,
) -> Duration {
    if headroom < 0 {
        return CROSSED;
    }
    let mut nanos = headroom.saturating_mul(NANOS_PER_SECOND) / assumed_rate(signal);
    if let Some(step) = step {
        if step.fell > 0 {
            let twice_the_rate = headroom.saturating_mul(step.within) / (2 * step.fell);
            nanos = nanos.min(twice_the_rate);
        }
        // It may have been falling since it was measured.
        let since = now.as_nanosecond() - step.at.as_nanosecond();
        nanos = nanos.saturating_sub(since.max(0)).max(0);
    }
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_secs(10);
    const MI: i64 = 1 << 20;
    const GI: i64 = 1 << 30;

    fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn seen(available: i64, milliseconds: i64) -> Observation {
        Observation {
            available,
            capacity: i64::MAX,
            time: Some(at(milliseconds)),
        }
    }

    /// With the forecast that it is asked with.
    struct Sleeper(SamplingInterval, Forecast);

    impl Sleeper {
        fn new(longest: Duration) -> Self {
            Self(SamplingInterval::new(longest), Forecast::default())
        }

        fn next(&mut self, now: Timestamp, watched: &[(Signal, Observation, i64)]) -> Duration {
            let observed = watched.iter().map(|(signal, seen, _)| (*signal, *seen));
            self.1.observe(now, &observed.collect());
            self.0.next(now, &self.1, watched)
        }
    }

    #[test]
    fn first_look_assumes_the_worst_rate() {
        let table = [
            // Idle, with lots of room.
            (Signal::MemoryAvailable, 64 * GI, 100 * MI, INTERVAL),
            (Signal::NodefsAvailable, 100 * GI, 10 * GI, INTERVAL),
            (Signal::PidAvailable, 4_000_000, 1000, INTERVAL),
            // Nearer.
            (Signal::MemoryAvailable, 5 * GI, GI, millis(1000)),
            (
                Signal::AllocatableMemoryAvailable,
                GI + 512 * MI,
                GI,
                millis(125),
            ),
            (Signal::ImagefsAvailable, 3 * GI, GI, millis(1000)),
            (Signal::ContainerfsInodesFree, 60_000, 10_000, millis(500)),
            (Signal::PidAvailable, 31_000, 1000, millis(1500)),
            // At the threshold, which is not yet below it (S1-004), and below it.
            (Signal::MemoryAvailable, GI + MI, GI, SHORTEST),
            (Signal::MemoryAvailable, GI, GI, SHORTEST),
            (Signal::MemoryAvailable, GI - 1, GI, CROSSED),
        ];
        for (signal, available, threshold, expected) in table {
            let mut sampling_interval = Sleeper::new(INTERVAL);
            let sleep = sampling_interval.next(at(0), &[(signal, seen(available, 0), threshold)]);
            assert_eq!(sleep, expected, "{signal} {available} {threshold}");
        }
    }

    #[test]
    fn a_fast_fall_shortens_the_sleep() {
        let memory = Signal::MemoryAvailable;
        let mut sampling_interval = Sleeper::new(INTERVAL);
        assert_eq!(
            sampling_interval.next(at(0), &[(memory, seen(100 * GI, 0), GI)]),
            INTERVAL
        );
        // 50 GiB in a second leave 49 GiB: gone in 0.98 s, so 0.49 s.
        assert_eq!(
            sampling_interval.next(at(1000), &[(memory, seen(50 * GI, 1000), GI)]),
            millis(490)
        );
        // The same figure again, or another threshold of it, changes nothing.
        assert_eq!(
            sampling_interval.next(at(1000), &[(memory, seen(50 * GI, 1000), GI)]),
            millis(490)
        );
        // A look that found no newer figure leaves less time.
        assert_eq!(
            sampling_interval.next(at(1400), &[(memory, seen(50 * GI, 1000), GI)]),
            millis(90)
        );
        assert_eq!(
            sampling_interval.next(at(9000), &[(memory, seen(50 * GI, 1000), GI)]),
            SHORTEST
        );
        // It rises again.
        assert_eq!(
            sampling_interval.next(at(9100), &[(memory, seen(90 * GI, 9100), GI)]),
            INTERVAL
        );
    }

    #[test]
    fn the_nearest_threshold_decides() {
        let mut sampling_interval = Sleeper::new(INTERVAL);
        let watched = [
            (Signal::MemoryAvailable, seen(5 * GI, 0), GI),
            (Signal::MemoryAvailable, seen(5 * GI, 0), 3 * GI),
            (Signal::NodefsAvailable, seen(100 * GI, 0), GI),
        ];
        assert_eq!(sampling_interval.next(at(0), &watched), millis(500));
        // Below its soft threshold, the hard one is what is ahead.
        let watched = [
            (Signal::MemoryAvailable, seen(2 * GI, 0), GI),
            (Signal::MemoryAvailable, seen(2 * GI, 0), 3 * GI),
        ];
        assert_eq!(Sleeper::new(INTERVAL).next(at(0), &watched), millis(250));
    }

    #[test]
    fn a_signal_that_went_missing_is_looked_for_ever_more_rarely() {
        let mut sampling_interval = Sleeper::new(INTERVAL);
        let memory = (Signal::MemoryAvailable, seen(100 * GI, 0), GI);
        assert_eq!(sampling_interval.next(at(0), &[]), INTERVAL);
        assert_eq!(sampling_interval.next(at(0), &[memory]), INTERVAL);
        for doublings in 0..12 {
            assert_eq!(sampling_interval.next(at(1), &[]), millis(3 << doublings));
        }
        for _ in 0..100 {
            assert_eq!(sampling_interval.next(at(1), &[]), INTERVAL);
        }
        assert_eq!(sampling_interval.next(at(2), &[memory]), INTERVAL);
        assert_eq!(sampling_interval.next(at(3), &[]), SHORTEST);
    }

    #[test]
    fn a_short_housekeeping_interval_is_kept() {
        let mut sampling_interval = Sleeper::new(millis(2));
        let watched = [(Signal::MemoryAvailable, seen(GI, 0), GI)];
        assert_eq!(sampling_interval.next(at(0), &watched), millis(2));
        assert_eq!(Sleeper::new(millis(2)).next(at(0), &[]), millis(2));
        let absurd = Duration::from_nanos(1);
        assert_eq!(Sleeper::new(absurd).next(at(0), &[]), millis(1));
    }

    proptest! {
        #[test]
        fn wakes_before_the_crossing_at_the_observed_rate(
            signal in prop::sample::select(&Signal::ALL),
            threshold in 0_i64..1 << 40,
            headroom in 0_i64..1 << 40,
            fell in 1_i64..1 << 40,
            within in 1_i64..100_000,
        ) {
            let available = threshold + headroom;
            let mut sampling_interval = Sleeper::new(INTERVAL);
            sampling_interval.next(at(0), &[(signal, seen(available + fell, 0), threshold)]);
            let watched = [(signal, seen(available, within), threshold)];
            let sleep = sampling_interval.next(at(within), &watched);
            let crossing = i128::from(headroom) * i128::from(within) * 1_000_000 / i128::from(fell);
            let nanos = i128::try_from(sleep.as_nanos()).unwrap();
            prop_assert!(sleep == SHORTEST || nanos <= crossing, "{sleep:?} {crossing}");
            prop_assert!((SHORTEST..=INTERVAL).contains(&sleep));
        }

        #[test]
        fn absurd_figures_stay_within_bounds(
            looks in prop::collection::vec(
                (any::<i64>(), any::<i64>(), any::<i64>(), any::<i64>(), prop::sample::select(&Signal::ALL)),
                1..20,
            ),
            longest in any::<u64>(),
        ) {
            let longest = Duration::from_nanos(longest);
            let mut sampling_interval = Sleeper::new(longest);
            for (available, threshold, now, time, signal) in looks {
                let moment = |nanos: i64| Timestamp::from_nanosecond(nanos.into()).unwrap();
                let observation = Observation {
                    available,
                    capacity: threshold,
                    time: (time % 3 != 0).then(|| moment(time)),
                };
                let sleep = sampling_interval.next(moment(now), &[(signal, observation, threshold)]);
                prop_assert!(sleep <= longest && sleep >= SHORTEST.min(longest));
            }
        }
    }

    #[test]
    fn the_ends_of_time() {
        let mut sampling_interval = Sleeper::new(Duration::MAX);
        for (now, available) in [
            (Timestamp::MIN, i64::MAX),
            (Timestamp::MAX, i64::MIN),
            (Timestamp::MIN, i64::MAX),
            (Timestamp::MAX, i64::MAX - 1),
        ] {
            let observation = Observation {
                available,
                capacity: 0,
                time: None,
            };
            let sleep =
                sampling_interval.next(now, &[(Signal::PidAvailable, observation, i64::MIN)]);
            assert!(sleep >= SHORTEST);
        }
    }
}
