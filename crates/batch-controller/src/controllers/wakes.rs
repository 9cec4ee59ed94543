//! Who wants to be woken when.

use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;

/// One time for each of those that wait.
#[derive(Debug)]
pub(super) struct Wakes<K> {
    times: HashMap<K, Timestamp>,
    sorted: BTreeSet<(Timestamp, K)>,
}

impl<K: Clone + Eq + Hash + Ord> Wakes<K> {
    pub(super) fn new() -> Self {
        Self {
            times: HashMap::new(),
            sorted: BTreeSet::new(),
        }
    }

    /// It replaces the time that was set before.
    pub(super) fn set(&mut self, who: K, time: Timestamp) {
        self.forget(&who);
        self.times.insert(who.clone(), time);
        self.sorted.insert((time, who));
    }

    pub(super) fn forget(&mut self, who: &K) {
        if let Some(time) = self.times.remove(who) {
            self.sorted.remove(&(time, who.clone()));
        }
    }

    /// Takes one that is to be woken.
    pub(super) fn due(&mut self, now: Timestamp) -> Option<K> {
        let (time, who) = self.sorted.first()?;
        if *time > now {
            return None;
        }
        let who = who.clone();
        self.forget(&who);
        Some(who)
    }

    /// The next time.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.sorted.first().map(|(time, _)| *time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_woken_once_at_the_time_that_was_said_last() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut wakes = Wakes::new();
        wakes.set("a", at(5));
        wakes.set("b", at(3));
        wakes.set("a", at(1));
        assert_eq!(wakes.next(), Some(at(1)));
        assert_eq!(wakes.due(at(0)), None);
        assert_eq!(
            [wakes.due(at(9)), wakes.due(at(9)), wakes.due(at(9))],
            [Some("a"), Some("b"), None]
        );
    }
}
