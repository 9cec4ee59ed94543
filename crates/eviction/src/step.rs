//! The data that the housekeeper asks its caller for.

use evictd_signals::Signal;
use evictd_usage::UsageNeed;
use serde::Serialize;

/// The next request to the caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The cycle is over.
    Rest,
    /// Usage of the pods that have limits on local storage.
    LocalStorage,
    /// Reclaim space without ending a pod, then observe again.
    Reclaim(Reclaim),
    /// Usage of every pod, shortly before a threshold is crossed: only two readings show who grows.
    Measure(Signal),
    /// Usage of the terminating pods, while no other pod may be chosen.
    Watch(UsageNeed),
    /// Usage of every pod.
    Rank(UsageNeed),
}

/// Node-level reclaim, in this order (S1-039 to S1-041).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaim {
    /// The signal to relieve.
    pub signal: Signal,
    /// Delete dead containers.
    pub dead_containers: bool,
    /// Then delete unused images.
    pub unused_images: bool,
}
