//! Attempts that are ended from outside because they take too long. A pod whose attempt was ended is tried again after its
//! back-off, as after any other error, and the others go on meanwhile.

use super::Scheduler;
use crate::decider::Decider;

impl Scheduler {
    /// Has attempts end where this says so. It is asked often, by several threads, and only while one is under way.
    pub fn interrupt_where(&mut self, ask: impl Fn() -> bool + Send + Sync + 'static) {
        self.cluster.interrupt_mut().ask(ask);
    }

    /// Makes an attempt that may be ended.
    pub(super) fn interruptible<T>(&mut self, attempt: impl FnOnce(&mut Self) -> T) -> T {
        self.cluster.interrupt_mut().begin();
        let made = attempt(self);
        if self.cluster.interrupt_mut().end() {
            // What nodes said at its end was no answer.
            self.decider = Decider::default();
        }
        made
    }

    /// Whether the attempt was ended: then nothing that it has found counts.
    pub(super) fn is_interrupted(&self) -> bool {
        self.cluster.interrupt().is_raised()
    }
}
