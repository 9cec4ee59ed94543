//! What is to be written of objects, in the order in which they were first wanted. However slow the server is, one write waits for
//! each object, and what is wanted meanwhile becomes a part of it.

use super::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::Notify;

/// Part of a write to one object.
pub(super) trait Merge {
    /// Both writes as one; the newer one's fields count.
    #[must_use]
    fn then(self, newer: Self) -> Self;
}

/// Takes writes. Those that wait at its end are still carried out.
pub(super) struct Wanted<T>(Arc<Shared<T>>);

/// Hands the writes out.
pub(super) struct Turns<T>(Arc<Shared<T>>);

struct Shared<T> {
    waiting: Mutex<Waiting<T>>,
    changed: Notify,
}

struct Waiting<T> {
    /// By path.
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
    /// Has this written to the object at this path.
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
    /// The next path, and what is to be written there; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<(String, T)> {
        loop {
            {
                let mut waiting = lock(&self.0.waiting);
                if let Some(path) = waiting.order.pop_front() {
                    let write = waiting.next.remove(&path);
                    return write.map(|write| (path, write));
                }
                // What a crowd has left behind is not kept for the next one.
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
