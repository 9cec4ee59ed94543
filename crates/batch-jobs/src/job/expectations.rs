//! Pods that the answer to their creation has shown, and no watch yet. A round that begins meanwhile must not create them
//! again. A pod that no watch shows in time is read.

use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How long a watch may take to show a pod.
const LIMIT: SignedDuration = SignedDuration::from_secs(60);

/// The expected pods of a job.
#[derive(Debug, Default)]
pub(super) struct Expectations {
    /// By name: the UID, and the end of the time.
    pods: BTreeMap<String, (Arc<str>, Timestamp)>,
    by_time: BTreeSet<(Timestamp, String)>,
}

/// The relation of a pod in a watch event to the expected pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// No pod of this name is expected.
    Unexpected,
    /// It is the expected pod, which is expected no longer.
    Expected,
    /// An earlier pod of the name of an expected one.
    Earlier,
}

impl Expectations {
    pub(super) fn add(&mut self, name: &str, uid: &Arc<str>, now: Timestamp) {
        self.forget(name);
        let due = now.checked_add(LIMIT).unwrap_or(Timestamp::MAX);
        self.pods.insert(name.to_owned(), (Arc::clone(uid), due));
        self.by_time.insert((due, name.to_owned()));
    }

    /// A watch event of a pod.
    pub(super) fn see(&mut self, name: &str, uid: &str) -> Seen {
        match self.pods.get(name) {
            None => Seen::Unexpected,
            Some((expected, _)) if **expected == *uid => {
                self.forget(name);
                Seen::Expected
            }
            Some(_) => Seen::Earlier,
        }
    }

    pub(super) fn forget(&mut self, name: &str) {
        if let Some((_, due)) = self.pods.remove(name) {
            self.by_time.remove(&(due, name.to_owned()));
        }
    }

    /// Takes a pod that no watch has shown in time.
    pub(super) fn overdue(&mut self, now: Timestamp) -> Option<String> {
        let (_, name) = self.by_time.first().filter(|(due, _)| *due <= now)?;
        let name = name.clone();
        self.forget(&name);
        Some(name)
    }

    /// When the next pod is overdue.
    pub(super) fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(due, _)| *due)
    }
}
