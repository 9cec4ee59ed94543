//! What the housekeeper asks its shell for.

use crate::Signal;
use serde::Serialize;

/// What the shell is asked for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do before the next look.
    Rest,
    /// Usage of the pods that have limits on local storage.
    LocalStorage,
    /// Free what can be freed without ending a pod, then look again.
    Reclaim(Reclaim),
    /// Usage of those who are being ended, for as long as nobody else may go.
    Watch(UsageNeed),
    /// Usage of every pod.
    Rank(UsageNeed),
}

/// Node-level reclaim, in this order (S1-039 to S1-041).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaim {
    /// The signal it is for.
    pub signal: Signal,
    /// Delete dead containers.
    pub dead_containers: bool,
    /// Then delete unused images.
    pub unused_images: bool,
}

/// What must be known of every pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageNeed {
    /// For this signal.
    pub signal: Signal,
    /// Whether it acts at once.
    pub hard: bool,
}
