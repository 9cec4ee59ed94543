//! A token bucket. It reads no clock: the caller passes the time.

use std::fmt;
use std::time::Duration;

/// The burst of a rate without one, as in kube-scheduler.
const USUAL_BURST: u32 = 100;

/// A rate of calls: so many at once, and then so many each second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CallRate {
    qps: f64,
    burst: u32,
}

impl CallRate {
    /// The rate of `--kube-api-qps` and `--kube-api-burst`. Without `qps`, or where it is not above 0, there is no limit.
    /// Without `burst`, or where it is 0, the burst is kube-scheduler's.
    #[must_use]
    pub fn of(qps: Option<f64>, burst: Option<u32>) -> Option<Self> {
        let qps = qps.filter(|qps| qps.is_finite() && *qps > 0.0)?;
        let burst = burst.filter(|burst| *burst > 0).unwrap_or(USUAL_BURST);
        Some(Self { qps, burst })
    }
}

/// `20 a second, in bursts of 40`
impl fmt::Display for CallRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { qps, burst } = self;
        write!(f, "{qps} a second, in bursts of {burst}")
    }
}

/// A bucket that is full at first and gets one token each `interval`. Times are measured from any fixed moment.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    interval: Duration,
    /// How long a full bucket takes to fill, without its last token.
    depth: Duration,
    /// When the bucket is full, if nothing is taken until then.
    full: Duration,
}

impl TokenBucket {
    pub(crate) fn new(interval: Duration, burst: u32) -> Self {
        Self {
            interval,
            depth: interval.saturating_mul(burst.saturating_sub(1)),
            full: Duration::ZERO,
        }
    }

    pub(crate) fn of(rate: CallRate) -> Self {
        // A rate of less than one in 500 billion years never gives another token.
        let interval = Duration::try_from_secs_f64(rate.qps.recip()).unwrap_or(Duration::MAX);
        Self::new(interval, rate.burst)
    }

    /// Takes a token.
    ///
    /// # Errors
    /// How long it takes until the next token.
    pub(crate) fn take(&mut self, now: Duration) -> Result<(), Duration> {
        let next = self.full.saturating_sub(self.depth);
        if now < next {
            return Err(next.saturating_sub(now));
        }
        self.full = self.full.max(now).saturating_add(self.interval);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_burst_is_free_and_then_one_call_for_each_interval() {
        let mut bucket = TokenBucket::of(CallRate::of(Some(20.0), Some(3)).unwrap());
        for _ in 0..3 {
            assert_eq!(bucket.take(millis(7)), Ok(()));
        }
        assert_eq!(bucket.take(millis(7)), Err(millis(50)));
        assert_eq!(bucket.take(millis(56)), Err(millis(1)));
        assert_eq!(bucket.take(millis(57)), Ok(()));
        // After a rest the burst is the same as at first, and not larger.
        for _ in 0..3 {
            assert_eq!(bucket.take(millis(9000)), Ok(()));
        }
        assert_eq!(bucket.take(millis(9000)), Err(millis(50)));
    }

    #[test]
    fn absent_zero_negative_and_infinite_rates_are_no_limit() {
        for qps in [
            None,
            Some(0.0),
            Some(-1.0),
            Some(f64::INFINITY),
            Some(f64::NAN),
        ] {
            assert_eq!(CallRate::of(qps, Some(5)), None);
        }
        for burst in [None, Some(0)] {
            let rate = CallRate::of(Some(0.5), burst).unwrap();
            assert_eq!(rate.to_string(), "0.5 a second, in bursts of 100");
        }
        // The slowest and the fastest.
        let mut slowest = TokenBucket::of(CallRate::of(Some(1e-300), Some(1)).unwrap());
        assert!(slowest.take(Duration::ZERO).is_ok() && slowest.take(millis(1)).is_err());
        let mut fastest = TokenBucket::of(CallRate::of(Some(1e300), Some(1)).unwrap());
        assert!((0..1000).all(|_| fastest.take(Duration::ZERO).is_ok()));
    }

    proptest! {
        /// Whenever calls come, no window has more than the burst and its share of the rate.
        #[test]
        fn no_window_has_more_calls_than_allowed(
            pauses in proptest::collection::vec(0_u64..400, 1..200), burst in 1_u32..8, interval in 1_u64..200,
        ) {
            let mut bucket = TokenBucket::new(millis(interval), burst);
            let (mut now, mut taken) = (0, Vec::new());
            for pause in pauses {
                now += pause;
                match bucket.take(millis(now)) {
                    Ok(()) => taken.push(now),
                    // The wait is exact.
                    Err(wait) => {
                        now += u64::try_from(wait.as_millis()).unwrap();
                        prop_assert_eq!(bucket.take(millis(now)), Ok(()));
                        taken.push(now);
                    }
                }
            }
            for (index, from) in taken.iter().enumerate() {
                for (count, to) in (1..).zip(&taken[index..]) {
                    prop_assert!(count <= u64::from(burst) + (to - from) / interval);
                }
            }
        }
    }
}
