//! The findings of a walk through the directories of pods.

use super::{Truncation, UsageWarning, ledger::Findings};
use crate::pods::{LocalPod, PodSet};
use evictd_usage::Usage;
use jiff::{SignedDuration, Timestamp};
use std::collections::{HashMap, HashSet};

/// The oldest figures of directories that a decision may use.
pub(super) const MAX_AGE: SignedDuration = SignedDuration::from_secs(5);

/// Which pods' directories are walked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkScope {
    /// Those of every pod.
    AllPods,
    /// Those of pods with local storage limits; the usage of the others stays unknown.
    LimitedPods,
}

/// The purpose of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// A decision, which may evict a pod because of the result.
    Decision,
    /// A question of a user, which may come at any time. A later decision does not use the result, because newer
    /// writes may matter.
    Question,
}

/// The result of a walk.
pub(super) struct Walk {
    pub(super) scope: WalkScope,
    pub(super) purpose: Purpose,
    pub(super) begun: Timestamp,
    pub(super) generation: u64,
    /// The UIDs of the pods, parallel to the usage.
    pub(super) uids: Vec<String>,
    pub(super) usage: Usage,
    pub(super) warnings: Vec<UsageWarning>,
    /// Why the disk usage was not found.
    pub(super) problem: Option<String>,
    /// The survey of these filesystems, if it was requested.
    pub(super) findings: Option<Findings>,
    /// The pods' writes to devices, by UID, if they were requested.
    pub(super) written: Vec<(String, i64)>,
}

impl Walk {
    /// Of no pod's directories.
    pub(super) fn of_nothing(begun: Timestamp, problem: Option<String>) -> Self {
        Self {
            scope: WalkScope::LimitedPods,
            purpose: Purpose::Question,
            begun,
            generation: 0,
            uids: Vec::new(),
            usage: Usage::default(),
            warnings: Vec::new(),
            problem,
            findings: None,
            written: Vec::new(),
        }
    }

    pub(super) fn is_recent(&self, now: Timestamp) -> bool {
        now.duration_since(self.begun) <= MAX_AGE
    }

    /// Whether it covers every pod of this set.
    pub(super) fn covers(&self, set: &PodSet) -> bool {
        let known: HashSet<&str> = self.uids.iter().map(String::as_str).collect();
        self.generation == set.generation
            || set.pods.iter().all(|pod| known.contains(pod.uid.as_str()))
    }

    /// The indices of this set's pods with a directory that could not be read.
    pub(super) fn unread(&self, set: &PodSet) -> Vec<usize> {
        let unread: HashSet<&str> = self
            .warnings
            .iter()
            .filter_map(|warning| match warning {
                UsageWarning::AtLeast {
                    index,
                    truncation: Truncation::Unreadable,
                    ..
                } => self.uids.get(*index).map(String::as_str),
                _ => None,
            })
            .collect();
        let pods = set.pods.iter().enumerate();
        pods.filter(|(_, pod)| unread.contains(pod.uid.as_str()))
            .map(|(index, _)| index)
            .collect()
    }

    /// The usage of this set's pods; `None` for those that came after the walk.
    pub(super) fn usage_of(&self, set: &PodSet) -> Usage {
        let places: HashMap<&str, usize> = self.uids.iter().map(String::as_str).zip(0..).collect();
        let of = |pod: &LocalPod| self.usage.of(*places.get(pod.uid.as_str())?).cloned();
        set.pods.iter().map(of).collect()
    }
}
