//! The only place that reads the clock.

use jiff::{SignedDuration, Timestamp};
use std::time::Instant;

/// Measures time since it was created.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    /// Seconds so far.
    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// A clock that begins with the wall-clock time and does not jump when the wall clock is set.
pub(crate) struct MonotonicClock {
    began: Timestamp,
    since: tokio::time::Instant,
}

impl MonotonicClock {
    pub(crate) fn start(now: Timestamp) -> Self {
        Self {
            began: now,
            since: tokio::time::Instant::now(),
        }
    }

    pub(crate) fn now(&self) -> Timestamp {
        let passed = SignedDuration::try_from(self.since.elapsed());
        let passed = passed.unwrap_or(SignedDuration::MAX);
        self.began.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}
