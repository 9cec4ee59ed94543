//! The only place that reads the clock.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// A wall clock that never jumps: the wall time at start plus the monotonic time since. Setting the machine's clock
/// therefore neither ends nor prolongs a grace period.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    started: Instant,
    started_at: Timestamp,
}

impl Clock {
    /// Starts from the wall clock's present reading.
    pub fn start() -> Self {
        Self {
            started: Instant::now(),
            started_at: Timestamp::now(),
        }
    }

    /// The time at start plus the monotonic time since.
    pub fn now(&self) -> Timestamp {
        let elapsed =
            SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.started_at
            .saturating_add(elapsed)
            .unwrap_or(self.started_at)
    }

    /// `time` plus `pause`; `time` itself if the sum cannot be computed.
    pub fn after(time: Timestamp, pause: SignedDuration) -> Timestamp {
        time.saturating_add(pause).unwrap_or(time)
    }

    /// The machine's own wall clock, which may jump. Use it to compute the age of timestamps that other programs on
    /// this machine wrote.
    pub fn wall(self) -> Timestamp {
        Timestamp::now()
    }
}
