//! How long an attempt to place a pod, or a gang, may take.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// As long as kube-scheduler looks for devices, unless it is configured otherwise.
const LONGEST: Duration = Duration::from_secs(10);

/// When the attempt that is under way must have ended. The engine decides about one pod at a time, so that an attempt that
/// does not end would be the end of all scheduling.
#[derive(Debug, Clone)]
pub struct Deadline {
    now: fn() -> Instant,
    start: Instant,
    /// The milliseconds from the start to the beginning of the attempt.
    began: Arc<AtomicU64>,
}

impl Deadline {
    /// By this clock.
    pub fn by(now: fn() -> Instant) -> Self {
        Self {
            now,
            start: now(),
            began: Arc::default(),
        }
    }

    fn passed(&self) -> Duration {
        (self.now)().duration_since(self.start)
    }

    /// An attempt begins.
    pub(crate) fn begin(&self) {
        let passed = u64::try_from(self.passed().as_millis()).unwrap_or(u64::MAX);
        self.began.store(passed, Ordering::Relaxed);
    }

    /// Whether its time is over.
    pub(crate) fn is_over(&self) -> bool {
        let began = Duration::from_millis(self.began.load(Ordering::Relaxed));
        self.passed() >= began.saturating_add(LONGEST)
    }
}

impl Default for Deadline {
    fn default() -> Self {
        Self::by(Instant::now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_may_take_ten_seconds_and_the_next_one_as_long() {
        let deadline = Deadline::default();
        let asked = deadline.clone();
        advance(Duration::from_hours(1)).await;
        for _ in 0..2 {
            deadline.begin();
            advance(Duration::from_millis(9_999)).await;
            assert!(!asked.is_over());
            advance(Duration::from_millis(1)).await;
            assert!(asked.is_over());
        }
    }
}
