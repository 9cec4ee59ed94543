//! Why a pod is evicted.

use serde::Serialize;

/// Which pods are evicted for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EvictionKind {
    /// Pods of its queue.
    Preempt,
    /// Pods of other queues.
    Reclaim,
}

impl EvictionKind {
    /// The word for it in conditions and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
        }
    }

    /// The kind that this word means.
    pub fn of(word: &str) -> Option<Self> {
        let mut kinds = [Self::Preempt, Self::Reclaim].into_iter();
        kinds.find(|kind| kind.as_str() == word)
    }
}
