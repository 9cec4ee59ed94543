//! How long pods wait.

use jiff::SignedDuration;

/// How long pods wait.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Backoff after the first failure; it doubles with each further one (`podInitialBackoffSeconds`).
    pub initial_backoff: SignedDuration,
    /// The longest backoff; zero turns backoff off (`podMaxBackoffSeconds`).
    pub max_backoff: SignedDuration,
    /// A pod that waited longer than this for an event is tried again without one.
    pub max_unschedulable: SignedDuration,
    /// Pods are woken for exactly the events for which kube-scheduler wakes them. It overlooks some, for example a new
    /// node for a pod that others do not want near; then the pod waits for the flush after `max_unschedulable`.
    pub as_kube_scheduler: bool,
    /// Whether there are custom plugins. Any event wakes the pods that they rejected.
    pub other_plugins: bool,
}

impl Default for Settings {
    /// 1 second, 10 seconds, 5 minutes; no event is overlooked.
    fn default() -> Self {
        Self {
            initial_backoff: SignedDuration::from_secs(1),
            max_backoff: SignedDuration::from_secs(10),
            max_unschedulable: SignedDuration::from_mins(5),
            as_kube_scheduler: false,
            other_plugins: false,
        }
    }
}
