//! The only place that reads the clock.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Wall time that never jumps: the wall clock at start plus what the monotonic clock has counted since,
/// so that setting the machine's clock neither ends nor prolongs a grace period.
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

    /// The present moment.
    pub fn now(&self) -> Timestamp {
        let elapsed =
            SignedDuration::try_from(self.started.elapsed()).unwrap_or(SignedDuration::MAX);
        self.started_at
            .saturating_add(elapsed)
            .unwrap_or(self.started_at)
    }

    /// What the machine's own clock says, which may jump: to find the age of what others on it have dated.
    pub fn wall(self) -> Timestamp {
        Timestamp::now()
    }
}

/// That much later; where there is no such time, as good as at once.
pub fn after(time: Timestamp, pause: SignedDuration) -> Timestamp {
    time.saturating_add(pause).unwrap_or(time)
}
