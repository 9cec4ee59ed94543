//! How a pod is evicted: the port, and one implementation per file.

mod cluster;
mod cri;
mod eviction;

pub(crate) use cluster::{ClusterEvictor, ResumedEvictor, Urgency};
pub(crate) use cri::LocalEvictor;
pub(crate) use eviction::ApiEvictor;

use evictd_kernel::kill::{GraceCut, KillError, Termination, Victim};
use std::{future::Future, time::Duration};

/// A way to evict a pod.
pub(crate) trait Evict {
    /// Sends SIGTERM, waits for `grace` or until `cut` ends it, then sends SIGKILL; with a grace period of zero it
    /// sends SIGKILL at once. Returns when the last process has exited or the deadline is over.
    fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> impl Future<Output = Result<Termination, EvictError>> + Send;
}

/// Why a pod could not be evicted.
#[derive(Debug, thiserror::Error)]
pub enum EvictError {
    /// Its processes could not be terminated.
    #[error(transparent)]
    Kill(#[from] KillError),
    /// Its disruption budget does not allow it, or the API server did not answer.
    #[error("{why}")]
    Blocked {
        /// The API server's answer.
        why: String,
        /// When to ask again.
        again: Duration,
    },
    /// evictd was away for so long that the reason to evict the pod is over.
    #[error(
        "evictd stopped before the pod did, and the pod still runs after the pressure has ended"
    )]
    StillRuns,
}

impl EvictError {
    /// Whether evictd lacks a permission or a view of the host, so that it could not terminate any other pod either
    /// (exit code 3).
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::Kill(error) if error.is_not_permitted())
    }
}
