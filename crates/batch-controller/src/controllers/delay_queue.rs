//! Items with a deadline each, as client-go's delaying queue has them.

use jiff::Timestamp;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::Duration;

#[derive(Debug)]
pub(super) struct DelayQueue<K> {
    deadlines: HashMap<K, Timestamp>,
    sorted: BTreeSet<(Timestamp, K)>,
}

impl<K: Clone + Eq + Hash + Ord> DelayQueue<K> {
    pub(super) fn new() -> Self {
        Self {
            deadlines: HashMap::new(),
            sorted: BTreeSet::new(),
        }
    }

    /// Adds an item, or replaces its deadline.
    pub(super) fn set(&mut self, item: K, deadline: Timestamp) {
        self.remove(&item);
        self.deadlines.insert(item.clone(), deadline);
        self.sorted.insert((deadline, item));
    }

    pub(super) fn remove(&mut self, item: &K) {
        if let Some(deadline) = self.deadlines.remove(item) {
            self.sorted.remove(&(deadline, item.clone()));
        }
    }

    /// Takes the item with the earliest deadline, if that has passed.
    pub(super) fn pop_due(&mut self, now: Timestamp) -> Option<K> {
        let (deadline, item) = self.sorted.first()?;
        if *deadline > now {
            return None;
        }
        let item = item.clone();
        self.remove(&item);
        Some(item)
    }

    pub(super) fn next_deadline(&self) -> Option<Timestamp> {
        self.sorted.first().map(|(deadline, _)| *deadline)
    }
}

/// Waits until this time; without one for ever.
pub(super) async fn sleep_until(time: Option<Timestamp>) {
    let Some(time) = time else {
        return std::future::pending().await;
    };
    let left = Timestamp::now().duration_until(time);
    tokio::time::sleep(Duration::try_from(left).unwrap_or_default()).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_due_once_at_its_last_deadline() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut queue = DelayQueue::new();
        queue.set("a", at(5));
        queue.set("b", at(3));
        queue.set("a", at(1));
        assert_eq!(queue.next_deadline(), Some(at(1)));
        assert_eq!(queue.pop_due(at(0)), None);
        assert_eq!(
            [
                queue.pop_due(at(9)),
                queue.pop_due(at(9)),
                queue.pop_due(at(9))
            ],
            [Some("a"), Some("b"), None]
        );
    }
}
