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
    /// Pods of its queue, for a whole gang.
    GangPreempt,
    /// Pods of other queues, for a whole gang.
    GangReclaim,
    /// Pods that a plugin wants elsewhere.
    Shuffle,
}

impl EvictionKind {
    const ALL: [Self; 5] = [
        Self::Preempt,
        Self::Reclaim,
        Self::GangPreempt,
        Self::GangReclaim,
        Self::Shuffle,
    ];

    /// The word for it in conditions and events.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
            Self::GangPreempt => "gangpreempt",
            Self::GangReclaim => "gangreclaim",
            Self::Shuffle => "shuffle",
        }
    }

    /// The kind that this word means.
    pub fn of(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.as_str() == word)
    }

    /// Whether pods of other queues are evicted.
    pub const fn is_reclaim(self) -> bool {
        matches!(self, Self::Reclaim | Self::GangReclaim)
    }
}
