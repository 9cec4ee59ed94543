//! How many bytes the large objects of a program may take together.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Smaller objects are not counted: how many there are is the business of quotas.
const LARGE: usize = 16 << 10;
/// The share of the budget that one namespace may take: a quarter.
const SHARES: usize = 4;
/// The default limit of a program for kept objects.
const DEFAULT_BYTES: usize = 64 << 20;

/// Bounds the large objects that all watches of a program keep. Clones share it.
///
/// ```
/// use evictd_cluster_client::Budget;
///
/// let budget = Budget::of(1 << 20);
/// // An ordinary object is not counted; a namespace gets a quarter of the budget for its large ones.
/// assert!(budget.take("shop", 1000) && budget.take("shop", 200 << 10));
/// assert!(!budget.take("shop", 200 << 10));
/// assert!(budget.take("other", 200 << 10));
/// budget.give_back("shop", 200 << 10);
/// assert!(budget.take("shop", 200 << 10));
/// ```
#[derive(Debug, Clone)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    bytes: usize,
    taken: Mutex<Taken>,
    /// One long object is parsed at a time: no more than one is in memory twice.
    turn: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_namespace: HashMap<Box<str>, usize>,
}

impl Default for Budget {
    fn default() -> Self {
        Self::of(DEFAULT_BYTES)
    }
}

impl Budget {
    /// A budget in bytes.
    pub fn of(bytes: usize) -> Self {
        Self(Arc::new(Shared {
            bytes,
            taken: Mutex::default(),
            turn: Arc::new(Semaphore::new(1)),
        }))
    }

    /// Whether an object of this size is a large one.
    pub(super) const fn counts(bytes: usize) -> bool {
        bytes >= LARGE
    }

    /// Takes the bytes of an object; false if there are too few left, and then nothing is taken.
    #[must_use]
    pub fn take(&self, namespace: &str, bytes: usize) -> bool {
        if !Self::counts(bytes) {
            return true;
        }
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let used = taken.by_namespace.get(namespace).copied().unwrap_or(0);
        if taken.all + bytes > self.0.bytes || used + bytes > self.0.bytes / SHARES {
            return false;
        }
        taken.all += bytes;
        taken.by_namespace.insert(namespace.into(), used + bytes);
        true
    }

    /// Gives back the bytes that were taken for an object.
    pub fn give_back(&self, namespace: &str, bytes: usize) {
        if !Self::counts(bytes) {
            return;
        }
        let mut taken = self.0.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.all = taken.all.saturating_sub(bytes);
        if let Some(used) = taken.by_namespace.get_mut(namespace) {
            *used = used.saturating_sub(bytes);
            if *used == 0 {
                taken.by_namespace.remove(namespace);
            }
        }
    }

    /// Waits until no other long object is being parsed. `None` never comes: nothing closes the semaphore.
    pub(super) async fn turn(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.turn).acquire_owned().await.ok()
    }
}
