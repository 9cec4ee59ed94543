//! Evicts a pod as a kubelet would: publishes its status and, in any case, terminates it on this node.

use super::{Evict, EvictError, LocalEvictor};
use crate::config::Tell;
use crate::delivery::{DeliveryQueue, FirstAttempt, Notice};
use evictd_kernel::kill::{CgroupEvictor, GraceCut, SigtermBy, Termination, Victim};
use std::{sync::Arc, time::Duration};
use tokio::{task::yield_now, time::timeout};

/// How long an eviction for a soft threshold waits for the API server's answer.
const SOFT_ANSWER_TIMEOUT: Duration = Duration::from_secs(2);

/// How urgent the eviction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The pod is killed once its status is published, or after this time at the latest; at once if its grace
    /// period is zero and `Tell::Together` is set.
    Hard(Duration),
    /// The status is published first, which starts the kubelet's own termination.
    Soft,
}

/// Evicts one pod that the API server knows.
#[derive(Clone)]
pub(crate) struct ClusterEvictor {
    /// Terminates the pod's processes on this node.
    pub local: LocalEvictor,
    /// Publishes the pod's status.
    pub delivery_queue: DeliveryQueue,
    /// The status to publish.
    pub notice: Notice,
    /// Whether an earlier run may have published it.
    pub again: bool,
    /// How urgent the eviction is.
    pub urgency: Urgency,
    /// Whether a kill for a hard threshold waits for the API server's answer.
    pub tell: Tell,
    /// Whether a kubelet manages the pod, and sends SIGTERM when it sees the status.
    pub kubelet: bool,
}

impl ClusterEvictor {
    fn submit(&self) -> FirstAttempt {
        let notice = self.notice.clone();
        if self.again {
            self.delivery_queue.submit_again(notice)
        } else {
            self.delivery_queue.submit(notice)
        }
    }
}

/// Terminates one pod whose status an earlier run has published already, so that its kubelet ends it.
pub(crate) struct ResumedEvictor(pub Arc<CgroupEvictor>);

impl Evict for ResumedEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        Ok(self.0.end(victim, grace, cut, SigtermBy::Kubelet).await?)
    }
}

impl Evict for ClusterEvictor {
    async fn evict(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Termination, EvictError> {
        let first_attempt = self.submit();
        if matches!(self.urgency, Urgency::Hard(_))
            && grace.is_zero()
            && self.tell == Tell::Together
        {
            // Lets the write begin without waiting for it. If the kubelet restarts the pod before it sees the
            // status, the pod is terminated again.
            yield_now().await;
            return Ok(self
                .local
                .end(victim, grace, cut, SigtermBy::Evictd)
                .await?);
        }
        let clock = self.local.cgroups.clock;
        let began = clock.now();
        let longest_wait = match self.urgency {
            Urgency::Hard(longest_wait) => longest_wait,
            // A pod with a short grace period gets at least half of it after SIGTERM.
            Urgency::Soft if !grace.is_zero() => SOFT_ANSWER_TIMEOUT.min(grace / 2),
            Urgency::Soft => SOFT_ANSWER_TIMEOUT,
        };
        let answer = tokio::select! {
            // An answer after the time-out is not lost: the delivery queue goes on by itself.
            accepted = timeout(longest_wait, first_attempt) => Some(matches!(accepted, Ok(Ok(true)))),
            () = cut.wait() => None,
        };
        let waited = clock.now().duration_since(began).unsigned_abs();
        let (grace, sigterm_by) = match (answer, self.urgency) {
            // A hard threshold has cut the grace period, whatever the API server says later.
            (None, _) => (Duration::ZERO, SigtermBy::Evictd),
            // The kubelet has seen the status and sends SIGTERM; evictd only waits and kills at the end.
            (Some(true), Urgency::Soft) => (grace.saturating_sub(waited), SigtermBy::Kubelet),
            (Some(_), Urgency::Soft) => (grace.saturating_sub(waited), SigtermBy::Evictd),
            // Some programs give up their graceful shutdown at a second SIGTERM.
            (Some(true), Urgency::Hard(_)) if self.kubelet => (grace, SigtermBy::Kubelet),
            (Some(_), Urgency::Hard(_)) => (grace, SigtermBy::Evictd),
        };
        Ok(self.local.end(victim, grace, cut, sigterm_by).await?)
    }
}
