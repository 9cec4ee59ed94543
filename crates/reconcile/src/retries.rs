//! Retries of failed work, with a growing delay (S6-016).

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// The pause after the first failure.
const FIRST: SignedDuration = SignedDuration::from_millis(5);
/// The longest pause.
const LONGEST: SignedDuration = SignedDuration::from_secs(180);

/// Things that failed, how often, and when each is tried again.
#[derive(Debug, Clone)]
pub struct Retries<T> {
    tries: BTreeMap<T, Try>,
    /// When each is tried again. All pods of a job may wait here, and each event asks for the next one.
    by_time: BTreeSet<(Timestamp, T)>,
}

#[derive(Debug, Clone, Copy)]
struct Try {
    failures: u32,
    /// `None` while it is being tried.
    due: Option<Timestamp>,
}

impl<T: Ord + Clone> Default for Retries<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Ord + Clone> Retries<T> {
    /// No failures.
    pub const fn new() -> Self {
        Self {
            tries: BTreeMap::new(),
            by_time: BTreeSet::new(),
        }
    }

    /// Notes a failure; returns whether it is tried again: not after so many failures, if there is a limit.
    pub fn failed(&mut self, what: T, limit: Option<u32>, now: Timestamp) -> bool {
        let failures = self.tries.get(&what).map_or(0, |known| known.failures);
        self.succeeded(&what);
        if limit.is_some_and(|limit| failures >= limit) {
            return false;
        }
        let pause = FIRST * 2_i32.pow(failures.min(16));
        let due = now
            .checked_add(pause.min(LONGEST))
            .unwrap_or(Timestamp::MAX);
        let failures = failures.saturating_add(1);
        self.by_time.insert((due, what.clone()));
        let due = Some(due);
        self.tries.insert(what, Try { failures, due });
        true
    }

    /// Clears the failures of work that succeeded.
    pub fn succeeded(&mut self, what: &T) {
        if let Some((what, known)) = self.tries.remove_entry(what)
            && let Some(due) = known.due
        {
            self.by_time.remove(&(due, what));
        }
    }

    /// Takes one that is due.
    pub fn due(&mut self, now: Timestamp) -> Option<T> {
        self.by_time.first().filter(|(due, _)| *due <= now)?;
        let (_, what) = self.by_time.pop_first()?;
        if let Some(known) = self.tries.get_mut(&what) {
            known.due = None;
        }
        Some(what)
    }

    /// Those whose time has not come.
    pub fn waiting(&self, now: Timestamp) -> BTreeSet<T> {
        let waiting = self.by_time.iter().rev();
        let waiting = waiting.take_while(|(due, _)| *due > now);
        waiting.map(|(_, what)| what.clone()).collect()
    }

    /// Makes all due at once, because a missing object may exist now.
    pub fn hurry(&mut self, now: Timestamp) {
        for (due, what) in std::mem::take(&mut self.by_time) {
            let due = now.min(due);
            if let Some(known) = self.tries.get_mut(&what) {
                known.due = Some(due);
            }
            self.by_time.insert((due, what));
        }
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(due, _)| *due)
    }

    /// Forgets all failures.
    pub fn clear(&mut self) {
        self.tries.clear();
        self.by_time.clear();
    }
}
