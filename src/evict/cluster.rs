//! A pod leaves as a kubelet would make it: its status is told, then it is ended here in any case.

use super::cgroup::Asks;
use super::{CgroupEvictor, Departure, EvictError, GraceCut, Leave, Victim};
use crate::outbox::{Notice, Outbox};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, time::timeout};

/// How long a soft eviction waits for the API server's answer.
const SOFT_PATIENCE: Duration = Duration::from_secs(2);

/// How much time there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Haste {
    /// The pod is killed as soon as its status is told, and after this time at the latest.
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
    /// Whether the Node shows its pressure.
    pub settled: watch::Receiver<bool>,
    /// How much time there is.
    pub haste: Haste,
    /// Whether a kubelet looks after it, and asks it to stop as soon as it is told.
    pub kubelet: bool,
}

impl ClusterEvictor {
    /// Whether the pod's status is told. A soft eviction waits for the node's taint, too: its successor should not come
    /// straight back.
    async fn told(&self, patience: Duration) -> bool {
        let mut settled = self.settled.clone();
        let notice = self.notice.clone();
        let mut posted = if self.again {
            self.outbox.post_again(notice)
        } else {
            self.outbox.post(notice)
        };
        let mut told = None;
        let all = async {
            told = Some(matches!((&mut posted).await, Ok(true)));
            if self.haste == Haste::Soft && told == Some(true) {
                // Nobody reports any more when the agent ends.
                let _ = settled.wait_for(|settled| *settled).await;
            }
        };
        let _ = timeout(patience, all).await;
        told.unwrap_or(false)
    }
}

/// Ends one pod whose kubelet an earlier run of this daemon has told to end it.
pub struct ToldBefore(pub Arc<CgroupEvictor>);

impl Leave for ToldBefore {
    async fn leave(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Departure, EvictError> {
        self.0.end(victim, grace, cut, Asks::Kubelet).await
    }
}

impl Leave for ClusterEvictor {
    async fn leave(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Departure, EvictError> {
        let began = self.local.clock.now();
        let patience = match self.haste {
            Haste::Hard(patience) => patience,
            // A pod that has little time gets at least half of it with its signal.
            Haste::Soft if !grace.is_zero() => SOFT_PATIENCE.min(grace / 2),
            Haste::Soft => SOFT_PATIENCE,
        };
        let answer = tokio::select! {
            told = self.told(patience) => Some(told),
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
        self.local.end(victim, grace, cut, asks).await
    }
}
