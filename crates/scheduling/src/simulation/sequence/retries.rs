//! How often a simulation tries pods whose attempts end in errors or whose bindings fail. Its objects do not change by
//! themselves, so it would try them for ever.

use super::Run;
use crate::queue::Pool;
use jiff::SignedDuration;
use std::collections::BTreeMap;

/// The first wait; further ones double, so that any backoff ends soon.
const BACKOFF: SignedDuration = SignedDuration::from_secs(10);

/// The most attempts that end in errors.
const ERRORS: u32 = 2;
/// The most bindings that fail.
const FAILURES: u32 = 4;

/// The failed attempts by pod.
#[derive(Debug, Default)]
pub(super) struct Retries {
    errors: BTreeMap<String, u32>,
    failures: BTreeMap<String, u32>,
}

impl Retries {
    /// An attempt has ended in an error. Returns whether it was the last one.
    pub(super) fn error(&mut self, pod: &str) -> bool {
        count(&mut self.errors, pod) >= ERRORS
    }

    /// A binding has failed. Returns whether it was the last one.
    pub(super) fn failure(&mut self, pod: &str) -> bool {
        count(&mut self.failures, pod) >= FAILURES
    }
}

/// Waits where pods whose devices could not be bound back off. Returns whether the backoff of one has ended.
pub(super) fn back_off(run: &mut Run) -> bool {
    let backing_off = |run: &Run| run.scheduler.queue().pods_in(Pool::ErrorBackoff).len();
    let before = backing_off(run);
    let mut pause = BACKOFF;
    while run.has_devices && before > 0 && backing_off(run) == before {
        let began = run.now;
        run.wait(pause);
        // Beyond the last timestamp no backoff ends.
        if run.now == began {
            return false;
        }
        run.scheduler.flush_backoff(run.now);
        pause = pause.checked_mul(2).unwrap_or(SignedDuration::MAX);
    }
    run.has_devices && before > 0
}

/// Tries a pod no more.
pub(super) fn give_up(run: &mut Run, named: String) {
    run.change(&named, None);
    run.outcome.given_up.push(named);
}

fn count(of: &mut BTreeMap<String, u32>, pod: &str) -> u32 {
    let count = of.entry(pod.to_owned()).or_default();
    *count += 1;
    *count
}
