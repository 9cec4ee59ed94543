//! The time limit of an attempt to place a pod or a gang.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::Instant;

/// The default of kube-scheduler for the allocation of devices.
const LONGEST: Duration = Duration::from_secs(10);

/// The deadline of the attempt under way. The engine tries one pod at a time, so that an attempt without an end would stop all
/// scheduling.
#[derive(Debug, Clone)]
pub(crate) struct Deadline {
    now: fn() -> Instant,
    start: Instant,
    /// When the attempt began, in milliseconds after `start`.
    began: Arc<AtomicU64>,
}

impl Deadline {
    /// A deadline with this clock, which a test can set.
    pub(crate) fn by(now: fn() -> Instant) -> Self {
        Self {
            now,
            start: now(),
            began: Arc::default(),
        }
    }

    fn passed(&self) -> Duration {
        (self.now)().duration_since(self.start)
    }

    /// Starts the time of an attempt.
    pub(crate) fn begin(&self) {
        let passed = u64::try_from(self.passed().as_millis()).unwrap_or(u64::MAX);
        // The threads of the attempt start later, so that they see this value without a stronger ordering.
        self.began.store(passed, Ordering::Relaxed);
    }

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
