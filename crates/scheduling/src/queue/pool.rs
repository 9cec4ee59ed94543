//! The pools of the queue by name.

/// Where a pod waits (S5-004).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pool {
    /// It is tried as soon as it is first.
    Active,
    /// It was rejected and backs off.
    Backoff,
    /// Its last attempt ended in an error, and it backs off.
    ErrorBackoff,
    /// It waits for an event that its rejectors registered.
    Unschedulable,
    /// A plugin keeps it out of the queue (`PreEnqueue`).
    Gated,
}

impl Pool {
    /// All pools, first the one from which a pod is tried soonest.
    pub(crate) const ALL: [Self; 5] = [
        Self::Active,
        Self::Backoff,
        Self::ErrorBackoff,
        Self::Unschedulable,
        Self::Gated,
    ];
}
