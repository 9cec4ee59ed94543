//! Attempts that are ended from outside because they take too long. A pod whose attempt was ended is tried again after its
//! back-off, as after any other error, and the others go on meanwhile.

use super::Scheduler;
use crate::scheduling_algorithm::SchedulingAlgorithm;

impl Scheduler {
    /// Ends attempts once `ask` returns true. It is called often, by several threads, and only during an attempt.
    pub fn interrupt_where(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.cluster.interrupt_mut().ask(ask);
    }

    /// Runs an attempt that may be ended.
    pub(super) fn interruptible<T>(&mut self, attempt: impl FnOnce(&mut Self) -> T) -> T {
        self.cluster.interrupt_mut().begin();
        let made = attempt(self);
        if self.cluster.interrupt_mut().end() {
            // It may have cached the answers of checks that were ended.
            self.decider = SchedulingAlgorithm::default();
        }
        made
    }

    /// Whether the attempt was ended. Then its results do not count.
    pub(super) fn is_interrupted(&self) -> bool {
        self.cluster.interrupt().is_raised()
    }
}
