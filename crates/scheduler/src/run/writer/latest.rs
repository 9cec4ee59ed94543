//! Pending writes, at most one for each object. A newer write is merged into the pending one, so that a slow server does not make
//! memory grow. Objects are written in the order of their first pending write.

use super::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// A write to one object.
pub(super) trait Merge {
    /// Merges two writes. Where both set a field, the newer write counts.
    #[must_use]
    fn then(self, newer: Self) -> Self;
}

/// The end that adds writes. After its drop the pending writes are still carried out.
pub(super) struct Wanted<T>(Arc<Shared<T>>);

/// The end that takes writes.
pub(super) struct Turns<T>(Arc<Shared<T>>);

struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Notify,
}

struct Waiting<T> {
    /// By path; the same paths as in `order`.
    next: HashMap<String, T>,
    order: VecDeque<String>,
    is_over: bool,
}

pub(super) fn latest<T: Merge>() -> (Wanted<T>, Turns<T>) {
    let waiting = Waiting {
        next: HashMap::new(),
        order: VecDeque::new(),
        is_over: false,
    };
    let shared = Arc::new(Shared {
        waiting: Mutex::new(waiting),
        changed: Notify::new(),
    });
    (Wanted(Arc::clone(&shared)), Turns(shared))
}

impl<T: Merge> Wanted<T> {
    /// Adds a write to the object at this path.
    pub(super) fn put(&self, path: String, write: T) {
        let mut waiting = lock(&self.0.waiting);
        let write = if let Some(older) = waiting.next.remove(&path) {
            older.then(write)
        } else {
            waiting.order.push_back(path.clone());
            write
        };
        waiting.next.insert(path, write);
        drop(waiting);
        self.0.changed.notify_one();
    }
}

impl<T> Drop for Wanted<T> {
    fn drop(&mut self) {
        lock(&self.0.waiting).is_over = true;
        self.0.changed.notify_one();
    }
}

impl<T> Turns<T> {
    /// The next write and its path. `None` once all are taken and no more can come.
    pub(super) async fn next(&mut self) -> Option<(String, T)> {
        loop {
            {
                let mut waiting = lock(&self.0.waiting);
                while let Some(path) = waiting.order.pop_front() {
                    if let Some(write) = waiting.next.remove(&path) {
                        return Some((path, write));
                    }
                }
                // A burst must not keep its memory.
                waiting.next.shrink_to(1024);
                waiting.order.shrink_to(1024);
                if waiting.is_over {
                    return None;
                }
            }
            self.0.changed.notified().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Merge for Vec<u32> {
        fn then(mut self, newer: Self) -> Self {
            self.extend(newer);
            self
        }
    }

    #[tokio::test]
    async fn one_write_waits_for_each_object_and_they_come_in_order() {
        let (wanted, mut turns) = latest();
        for round in 0..1000 {
            for path in ["a", "b"] {
                wanted.put(path.to_owned(), vec![round]);
            }
        }
        assert_eq!(lock(&wanted.0.waiting).next.len(), 2);
        let (path, all) = turns.next().await.unwrap();
        assert_eq!((path.as_str(), all), ("a", (0..1000).collect()));
        // It waits behind the others again.
        wanted.put("a".to_owned(), vec![7]);
        drop(wanted);
        assert_eq!(turns.next().await.unwrap().0, "b");
        assert_eq!(turns.next().await.unwrap(), ("a".to_owned(), vec![7]));
        assert!(turns.next().await.is_none());
    }
}
