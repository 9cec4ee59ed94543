//! Retries of failed work, with a growing delay (S6-016).

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The pause after the first failure.
const FIRST: SignedDuration = SignedDuration::from_millis(5);
/// The longest pause.
const LONGEST: SignedDuration = SignedDuration::from_secs(180);

/// Things that failed, how often, and when each is tried again.
#[derive(Debug, Clone)]
pub(crate) struct Retries<T> {
    tries: BTreeMap<T, Try>,
}

#[derive(Debug, Clone, Copy)]
struct Try {
    failures: u32,
    /// `None` while it is being tried.
    due: Option<Timestamp>,
}

impl<T: Ord + Clone> Retries<T> {
    pub(crate) fn new() -> Self {
        Self {
            tries: BTreeMap::new(),
        }
    }

    /// Notes a failure; returns whether it is tried again: not after so many failures, if there is a limit.
    pub(crate) fn failed(&mut self, what: T, limit: Option<u32>, now: Timestamp) -> bool {
        let failures = self.tries.get(&what).map_or(0, |known| known.failures);
        if limit.is_some_and(|limit| failures >= limit) {
            self.tries.remove(&what);
            return false;
        }
        let pause = FIRST * 2_i32.pow(failures.min(16));
        let due = now
            .checked_add(pause.min(LONGEST))
            .unwrap_or(Timestamp::MAX);
        let failures = failures.saturating_add(1);
        self.tries.insert(
            what,
            Try {
                failures,
                due: Some(due),
            },
        );
        true
    }

    /// Clears the failures of work that succeeded.
    pub(crate) fn succeeded(&mut self, what: &T) {
        self.tries.remove(what);
    }

    /// Takes one that is due.
    pub(crate) fn due(&mut self, now: Timestamp) -> Option<T> {
        let due = |known: &Try| known.due.is_some_and(|due| due <= now);
        let (what, known) = self.tries.iter_mut().find(|(_, known)| due(known))?;
        known.due = None;
        Some(what.clone())
    }

    /// Those whose time has not come.
    pub(crate) fn waiting(&self, now: Timestamp) -> BTreeSet<T> {
        let waits = |known: &Try| known.due.is_some_and(|due| due > now);
        let waiting = self.tries.iter().filter(|(_, known)| waits(known));
        waiting.map(|(what, _)| what.clone()).collect()
    }

    /// Makes all due at once, because a missing object may exist now.
    pub(crate) fn hurry(&mut self, now: Timestamp) {
        let waiting = self
            .tries
            .values_mut()
            .filter_map(|known| known.due.as_mut());
        waiting.for_each(|due| *due = now.min(*due));
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.tries.values().filter_map(|known| known.due).min()
    }

    pub(crate) fn clear(&mut self) {
        self.tries.clear();
    }
}
