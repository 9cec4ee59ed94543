//! The pre-kill hook of a departure: whether there is time for it, and when it has to end.
//!
//! It runs before the first signal, for at most its budget. The grace period begins when it has ended.

use super::departure::{Departure, KILL_WAIT, Stage, after};
use evictd_decision::Cause;
use jiff::{SignedDuration, Timestamp};

impl Departure {
    /// Lets the hook run for at most `budget`, if there is time. Before a soft eviction there is, unless the signal will be
    /// exhausted too soon; before a hard one only where the forecast is known and far enough away. The kernel needs time after
    /// the kill, too. There is none while a hard threshold acts that this eviction does not relieve (`hard_beside`).
    /// `exhausted_at`: when the signal is exhausted, where that is known.
    pub fn allow_hook(
        &mut self,
        now: Timestamp,
        budget: SignedDuration,
        exhausted_at: Option<Timestamp>,
        hard_beside: bool,
    ) {
        let in_time = |exhausted: Timestamp| !is_too_late(after(now, budget), exhausted);
        let allowed = match self.purpose.cause() {
            Some(Cause::Soft) => exhausted_at.is_none_or(in_time),
            Some(Cause::Hard) => exhausted_at.is_some_and(in_time),
            // Another pod waits for a rejection or a preemption. A pod over a limit of its own is not waited for.
            Some(Cause::LocalStorage) | None => false,
        };
        // No pod is chosen for the other threshold while the hook runs.
        self.hook = (allowed && !hard_beside).then_some(budget);
    }

    /// The hook begins now, if it is to run.
    pub(super) fn begin_hook(&mut self, now: Timestamp) {
        let Some(budget) = self.hook else {
            return;
        };
        let until = after(now, budget);
        self.begin(now, budget.saturating_add(self.grace));
        self.hook_until = Some(until);
    }

    /// Whether the hook has to end now, because a kill would come too late otherwise. No pod is chosen for another hard
    /// threshold while this one is waited for.
    pub(super) fn hook_is_too_late(
        &self,
        now: Timestamp,
        hard_since: Timestamp,
        exhausted_at: Option<Timestamp>,
    ) -> bool {
        self.hook_until.is_some_and(|until| {
            now >= until
                || hard_since > self.since
                || exhausted_at.is_some_and(|exhausted| is_too_late(until, exhausted))
        })
    }

    /// The hook has ended, or has to: the grace period begins now. It never ends later than with the whole budget.
    pub(super) fn end_hook(&mut self, now: Timestamp) {
        let latest = after(now, self.grace);
        if self.hook_until.take().is_some()
            && let Stage::Terminating { kill_at, .. } = &mut self.stage
        {
            *kill_at = latest.min(*kill_at);
        }
    }
}

/// Whether a hook that runs until then leaves too little time for the kill.
fn is_too_late(until: Timestamp, exhausted: Timestamp) -> bool {
    exhausted < after(until, KILL_WAIT)
}
