//! How long to wait before the next attempt: twice as long each time, up to a longest pause.

use std::time::Duration;

/// Pauses that double up to a longest one. It has no clock, and its random number is a parameter, so that callers
/// can be tested without waiting.
///
/// ```
/// use evictd_cluster_client::Backoff;
/// use std::time::Duration;
///
/// let mut backoff = Backoff::new(Duration::from_millis(250), Duration::from_secs(1));
/// let pauses = [(); 4].map(|()| backoff.next(Backoff::NO_JITTER).as_millis());
/// assert_eq!(pauses, [250, 500, 1000, 1000]);
/// backoff.reset();
/// assert_eq!(backoff.next(0.0).as_millis(), 125);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    pause: Duration,
}

impl Backoff {
    /// The chance to pass if no other client waits for the same thing: pauses are not shortened.
    pub const NO_JITTER: f64 = 1.0;

    /// From `first` to `longest`.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            pause: first,
        }
    }

    /// The next pause: half of it is fixed; `chance`, from 0 to 1, is the share of the other half that is added. So
    /// clients that failed together do not return together.
    pub fn next(&mut self, chance: f64) -> Duration {
        let pause = self.pause.min(self.longest);
        self.pause = pause.saturating_mul(2);
        spread(pause, chance)
    }

    /// Limits every pause from now on to `longest`.
    pub fn limit(&mut self, longest: Duration) {
        self.longest = longest;
    }

    /// After a success: the next pause is the first one again.
    pub fn reset(&mut self) {
        self.pause = self.first;
    }
}

/// Half of the pause, plus the share `chance` of the other half.
pub(crate) fn spread(pause: Duration, chance: f64) -> Duration {
    pause / 2 + (pause / 2).mul_f64(chance.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{Instant, sleep};

    const FIRST: Duration = Duration::from_millis(250);
    const LONGEST: Duration = Duration::from_secs(30);

    #[test]
    fn pauses_double_up_to_the_longest_and_begin_anew() {
        let mut backoff = Backoff::new(FIRST, LONGEST);
        let pauses = [(); 10].map(|()| backoff.next(Backoff::NO_JITTER).as_millis());
        let doubled = [
            250, 500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000,
        ];
        assert_eq!(pauses, doubled);
        backoff.reset();
        assert_eq!(backoff.next(Backoff::NO_JITTER), FIRST);
    }

    #[test]
    fn chance_decides_over_half_of_a_pause() {
        let second = Duration::from_secs(1);
        let with = |chance| Backoff::new(second, LONGEST).next(chance);
        assert_eq!(with(0.0), second / 2);
        assert_eq!(with(0.5), second * 3 / 4);
        assert_eq!(with(1.0), second);
        // A value outside of 0 to 1 neither panics nor makes the pause longer.
        for no_chance in [-1.0, 2.0] {
            assert!((second / 2..=second).contains(&with(no_chance)));
        }
    }

    #[test]
    fn a_new_limit_holds_at_once_and_nothing_overflows() {
        let mut backoff = Backoff::new(FIRST, Duration::MAX);
        for _ in 0..200 {
            backoff.next(0.3);
        }
        backoff.limit(LONGEST);
        assert_eq!(backoff.next(Backoff::NO_JITTER), LONGEST);
        backoff.limit(FIRST / 2);
        assert_eq!(backoff.next(Backoff::NO_JITTER), FIRST / 2);
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_are_as_far_apart_as_the_pauses_say() {
        let began = Instant::now();
        let mut backoff = Backoff::new(FIRST, Duration::from_secs(1));
        let mut attempts = Vec::new();
        for _ in 0..4 {
            sleep(backoff.next(Backoff::NO_JITTER)).await;
            attempts.push(began.elapsed().as_millis());
        }
        assert_eq!(attempts, [250, 750, 1750, 2750]);
    }
}
