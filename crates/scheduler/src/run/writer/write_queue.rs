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
    fn merge(self, newer: Self) -> Self;
}

/// The end that adds writes. After its drop the pending writes are still carried out.
pub(super) struct WriteSender<T>(Arc<Shared<T>>);

/// The end that takes writes.
pub(super) struct WriteQueue<T>(Arc<Shared<T>>);

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

pub(super) fn write_queue<T: Merge>() -> (WriteSender<T>, WriteQueue<T>) {
    let waiting = Waiting {
        next: HashMap::new(),
        order: VecDeque::new(),
        is_over: false,
    };
    let shared = Arc::new(Shared {
        waiting: Mutex::new(waiting),
        changed: Notify::new(),
    });
    (WriteSender(Arc::clone(&shared)), WriteQueue(shared))
}

impl<T: Merge> WriteSender<T> {
    /// Adds a write to the object at this path.
    pub(super) fn put(&self, path: String, write: T) {
        let mut waiting = lock(&self.0.waiting);
        let write = if let Some(older) = waiting.next.remove(&path) {
            older.merge(write)
        } else {
            waiting.order.push_back(path.clone());
            write
        };
        waiting.next.insert(path, write);
        drop(waiting);
        self.0.changed.notify_one();
    }
}

impl<T> Drop for WriteSender<T> {
    fn drop(&mut self) {
        lock(&self.0.waiting).is_over = true;
        self.0.changed.notify_one();
    }
}

impl<T> WriteQueue<T> {
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
                // The memory of a burst is freed.
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
        fn merge(mut self, newer: Self) -> Self {
            self.extend(newer);
            self
        }
    }

    #[tokio::test]
    async fn writes_to_one_object_are_merged_and_objects_keep_their_order() {
        let (sender, mut queue) = write_queue();
        for round in 0..1000 {
            for path in ["a", "b"] {
                sender.put(path.to_owned(), vec![round]);
            }
        }
        assert_eq!(lock(&sender.0.waiting).next.len(), 2);
        let (path, all) = queue.next().await.unwrap();
        assert_eq!((path.as_str(), all), ("a", (0..1000).collect()));
        // A new write to the first object is behind the others.
        sender.put("a".to_owned(), vec![7]);
        drop(sender);
        assert_eq!(queue.next().await.unwrap().0, "b");
        assert_eq!(queue.next().await.unwrap(), ("a".to_owned(), vec![7]));
        assert!(queue.next().await.is_none());
    }
}
