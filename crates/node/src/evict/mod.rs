//! How a pod leaves the node: the port, and its implementations one file each.

mod cluster;
mod eviction;

pub use cluster::{ClusterEvictor, Haste, ToldBefore};
pub use eviction::ApiEvictor;

use evictd_kernel::kill::{Asks, CgroupEvictor, GraceCut, KillError, Termination, Victim};
use std::{future::Future, time::Duration};

/// A way to make a pod leave.
pub trait Evict {
    /// Asks the pod to stop, waits `grace` (zero: neither asks nor waits) or until `cut` says otherwise, then kills, and
    /// returns when its last process is gone or has outlived the deadline.
    fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> impl Future<Output = Result<Termination, EvictError>> + Send;
}

/// Why a pod could not be made to leave.
#[derive(Debug, thiserror::Error)]
pub enum EvictError {
    /// Its processes could not be ended.
    #[error(transparent)]
    Kill(#[from] KillError),
    /// Its disruption budget does not allow it, or nobody could be asked.
    #[error("{why}")]
    Blocked {
        /// The API server's answer.
        why: String,
        /// When to ask again.
        again: Duration,
    },
    /// evictd was away for so long that the pod should run on.
    #[error("evictd ended before the pod did, and the pod runs on after the pressure")]
    RunsOn,
}

impl EvictError {
    /// Whether evictd lacks a permission or a view of the host, so that it could not end any other pod either (exit code
    /// 3).
    pub fn is_not_permitted(&self) -> bool {
        matches!(self, Self::Kill(error) if error.is_not_permitted())
    }
}

impl Evict for CgroupEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        Ok(self.end(victim, grace, cut, Asks::Evictd).await?)
    }
}
