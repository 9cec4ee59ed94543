//! A pod leaves as a kubelet would make it: its status is told, and it is ended here in any case.

use super::{Evict, EvictError};
use crate::config::Tell;
use crate::delivery::{Notice, Outbox, Posted};
use evictd_kernel::kill::{Asks, CgroupEvictor, GraceCut, Termination, Victim};
use std::{sync::Arc, time::Duration};
use tokio::{task::yield_now, time::timeout};

/// How long a soft eviction waits for the API server's answer.
const SOFT_PATIENCE: Duration = Duration::from_secs(2);

/// How much time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// The pod is killed as soon as its status is told, and after this time at the latest; without a grace and with
    /// `Tell::Together`, at once.
    Hard(Duration),
    /// The status is told first, and starts the kubelet's own teardown.
    Soft,
}

/// Ends one pod that the API server knows.
#[derive(Clone)]
pub struct ClusterEvictor {
    /// Ends it.
    pub local: Arc<CgroupEvictor>,
    /// Tells it.
    pub outbox: Outbox,
    /// What is told.
    pub notice: Notice,
    /// Whether an earlier run of this daemon may have told it.
    pub again: bool,
    /// How much time there is.
    pub haste: Haste,
    /// Whether a hard kill waits for an answer.
    pub tell: Tell,
    /// Whether a kubelet looks after it, and asks it to stop as soon as it is told.
    pub kubelet: bool,
}

impl ClusterEvictor {
    fn post(&self) -> Posted {
        let notice = self.notice.clone();
        if self.again {
            self.outbox.post_again(notice)
        } else {
            self.outbox.post(notice)
        }
    }
}

/// Ends one pod whose kubelet an earlier run of this daemon has told to end it.
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
            // Lets the writes begin, and waits for nothing: what the kubelet starts again before it knows is ended again.
            yield_now().await;
            return Ok(self.local.end(victim, grace, cut, Asks::Evictd).await?);
        }
        let began = self.local.clock.now();
        let patience = match self.haste {
            Haste::Hard(patience) => patience,
            // A pod that has little time gets at least half of it with its signal.
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
            // Some programs give up their shutdown at a second SIGTERM.
            (Some(true), Haste::Hard(_)) if self.kubelet => (grace, Asks::Kubelet),
            (Some(_), Haste::Hard(_)) => (grace, Asks::Evictd),
        };
        Ok(self.local.end(victim, grace, cut, asks).await?)
    }
}
