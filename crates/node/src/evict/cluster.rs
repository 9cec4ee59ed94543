//! Evicts a pod as a kubelet would: publishes its status and, in any case, terminates it on this node.

use super::{Evict, EvictError};
use crate::config::Tell;
use crate::delivery::{DeliveryQueue, Notice, Posted};
use evictd_kernel::kill::{Asks, CgroupEvictor, GraceCut, Termination, Victim};
use std::{sync::Arc, time::Duration};
use tokio::{task::yield_now, time::timeout};

/// How long an eviction for a soft threshold waits for the API server's answer.
const SOFT_PATIENCE: Duration = Duration::from_secs(2);

/// How urgent the eviction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// The pod is killed once its status is published, or after this time at the latest; at once if its grace
    /// period is zero and `Tell::Together` is set.
    Hard(Duration),
    /// The status is published first, which starts the kubelet's own termination.
    Soft,
}

/// Evicts one pod that the API server knows.
#[derive(Clone)]
pub struct ClusterEvictor {
    /// Terminates it.
    pub local: Arc<CgroupEvictor>,
    /// Publishes its status.
    pub delivery_queue: DeliveryQueue,
    /// The status to publish.
    pub notice: Notice,
    /// Whether an earlier run may have published it.
    pub again: bool,
    /// How urgent the eviction is.
    pub haste: Haste,
    /// Whether a kill for a hard threshold waits for the API server's answer.
    pub tell: Tell,
    /// Whether a kubelet manages the pod, and sends SIGTERM when it sees the status.
    pub kubelet: bool,
}

impl ClusterEvictor {
    fn post(&self) -> Posted {
        let notice = self.notice.clone();
        if self.again {
            self.delivery_queue.post_again(notice)
        } else {
            self.delivery_queue.post(notice)
        }
    }
}

/// Terminates one pod after an earlier run has told its kubelet to end it.
pub struct ToldBefore(pub Arc<CgroupEvictor>);

impl Evict for ToldBefore {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        Ok(self.0.end(victim, grace, cut, Asks::Kubelet).await?)
    }
}

impl Evict for ClusterEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        let posted = self.post();
        if matches!(self.haste, Haste::Hard(_)) && grace.is_zero() && self.tell == Tell::Together {
            // Lets the write begin without waiting for it. If the kubelet restarts the pod before it sees the
            // status, the pod is terminated again.
            yield_now().await;
            return Ok(self.local.end(victim, grace, cut, Asks::Evictd).await?);
        }
        let began = self.local.clock.now();
        let patience = match self.haste {
            Haste::Hard(patience) => patience,
            // A pod with a short grace period gets at least half of it after SIGTERM.
            Haste::Soft if !grace.is_zero() => SOFT_PATIENCE.min(grace / 2),
            Haste::Soft => SOFT_PATIENCE,
        };
        let answer = tokio::select! {
            told = timeout(patience, posted) => Some(matches!(told, Ok(Ok(true)))),
            () = cut.wait() => None,
        };
        let waited = self.local.clock.now().duration_since(began).unsigned_abs();
        let (grace, asks) = match (answer, self.haste) {
            (None, _) => (Duration::ZERO, Asks::Evictd),
            (Some(true), Haste::Soft) => (grace.saturating_sub(waited), Asks::Kubelet),
            (Some(_), Haste::Soft) => (grace.saturating_sub(waited), Asks::Evictd),
            // Some programs give up their graceful shutdown at a second SIGTERM.
            (Some(true), Haste::Hard(_)) if self.kubelet => (grace, Asks::Kubelet),
            (Some(_), Haste::Hard(_)) => (grace, Asks::Evictd),
        };
        Ok(self.local.end(victim, grace, cut, asks).await?)
    }
}
