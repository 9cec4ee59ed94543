//! Why a pod is evicted.

/// Which pods are evicted for a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EvictionKind {
    /// Pods of its queue.
    Preempt,
    /// Pods of other queues.
    Reclaim,
}

impl EvictionKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
        }
    }
}
