//! Informs the cluster of decisions: publishes the victim's status, and receives the results for the main loop.

use crate::{
    config::{EvictMethod, SoftTierFallback, Tell},
    delivery::{DeliveryQueue, Progress, Way},
    server::state::Answer,
};
use evictd_cluster_client::Actions;
use evictd_decision::Cause;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    task::JoinHandle,
};

/// How long budgets may block every eviction before `softTierFallback: evict` terminates a pod here.
const BLOCK_LIMIT: SignedDuration = SignedDuration::from_mins(1);
/// A block by budgets this long ago belongs to an earlier shortage.
const BLOCK_EXPIRY: SignedDuration = SignedDuration::from_mins(5);

/// How evictions reach the cluster.
pub struct Cluster {
    /// Sends notices to the API server.
    pub delivery_queue: DeliveryQueue,
    /// How pods are evicted: here or through the eviction API.
    pub method: EvictMethod,
    /// Whether an eviction for a hard threshold waits until the API server is informed.
    pub tell: Tell,
    /// The fallback if budgets block every eviction.
    pub fallback: SoftTierFallback,
    /// Calls the eviction API.
    pub actions: Actions,
    /// Since when budgets block, and when one blocked last.
    pub blocked: Option<(Timestamp, Timestamp)>,
    /// Receives how far notices are.
    pub publications: mpsc::UnboundedReceiver<Progress>,
    /// Stops the task that reports conditions and taints to the Node.
    pub reports: Reports,
}

/// The task that reports to the Node, and the way to stop it.
type Reports = Arc<Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>>;

/// The next progress of a notice; without a cluster it waits for ever. Cancel safe.
pub(super) async fn progress(cluster: Option<&mut Cluster>) -> Progress {
    let next = match cluster {
        Some(cluster) => cluster.publications.recv().await,
        None => None,
    };
    match next {
        Some(progress) => progress,
        None => std::future::pending().await,
    }
}

impl Cluster {
    /// Whether this eviction uses the eviction API: for soft thresholds, unless budgets have blocked for too long.
    pub(super) fn asks_budgets(&self, kind: Cause, now: Timestamp) -> bool {
        let too_long = self.fallback == SoftTierFallback::Evict
            && self
                .blocked
                .is_some_and(|(since, _)| now.duration_since(since) >= BLOCK_LIMIT);
        self.method == EvictMethod::Eviction && kind == Cause::Soft && !too_long
    }

    /// How to inform the API server of a pod with this grace period.
    pub(super) fn way(&self, grace: Duration) -> Way {
        match self.method {
            EvictMethod::Delete => Way::Delete(grace.as_secs()),
            _ => Way::Status,
        }
    }

    /// Stops all reports to the Node; answers when none is in progress any more.
    pub(super) fn stop_reports(&self, answer: Answer) {
        let reports = Arc::clone(&self.reports);
        tokio::spawn(async move {
            // Locked until the task has ended, so that a second caller waits for that too.
            let mut reports = reports.lock().await;
            if let Some((stop_reports, task)) = reports.take() {
                tracing::info!(
                    "as requested, this node's conditions and taints are no longer written"
                );
                // The task may have ended by itself.
                let _ = stop_reports.send(());
                let _ = task.await;
            }
            let _ = answer.send(Ok(json!({})));
        });
    }

    pub(super) fn note_blocked(&mut self, now: Timestamp) {
        // A gap between two blocks means that evictions were possible meanwhile.
        let since = self
            .blocked
            .filter(|(_, last)| now.duration_since(*last) < BLOCK_EXPIRY)
            .map_or(now, |(since, _)| since);
        self.blocked = Some((since, now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::Access;
    use tokio::sync::watch;

    fn cluster(method: EvictMethod, fallback: SoftTierFallback) -> Cluster {
        let nowhere = kube::Config::new("http://127.0.0.1:9".parse().unwrap());
        let actions = Access::new("a test".into(), nowhere).actions().unwrap();
        let (delivery_queue, publications) =
            DeliveryQueue::new(actions.clone(), watch::channel(true).1);
        Cluster {
            delivery_queue,
            method,
            tell: Tell::Together,
            fallback,
            actions,
            blocked: None,
            publications,
            reports: Reports::default(),
        }
    }

    #[tokio::test]
    async fn both_callers_of_stop_reports_wait_for_the_end() {
        let cluster = cluster(EvictMethod::Auto, SoftTierFallback::Wait);
        let (stop_reports, stopped) = oneshot::channel::<()>();
        let (finish, finished) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            stopped.await.unwrap();
            finished.await.unwrap();
        });
        *cluster.reports.lock().await = Some((stop_reports, task));
        let (first, mut first_answer) = oneshot::channel();
        let (second, mut second_answer) = oneshot::channel();
        cluster.stop_reports(first);
        cluster.stop_reports(second);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(first_answer.try_recv().is_err() && second_answer.try_recv().is_err());
        finish.send(()).unwrap();
        assert!(first_answer.await.unwrap().is_ok() && second_answer.await.unwrap().is_ok());
    }

    #[tokio::test]
    async fn only_soft_evictions_ask_budgets_and_not_for_ever_where_a_fallback_is_chosen() {
        use EvictMethod::{Delete, Eviction};
        use SoftTierFallback::{Evict, Wait};
        let at = |second| Timestamp::from_second(second).unwrap();
        for (method, fallback, kind, blocked_at, now, asks) in [
            (Eviction, Wait, Cause::Soft, [0, 0], 0, true),
            (Eviction, Wait, Cause::Hard, [0, 0], 0, false),
            (Delete, Wait, Cause::Soft, [0, 0], 0, false),
            (Eviction, Wait, Cause::Soft, [0, 60], 120, true),
            (Eviction, Evict, Cause::Soft, [0, 30], 59, true),
            (Eviction, Evict, Cause::Soft, [0, 30], 60, false),
            // A block after a long gap starts a new count.
            (Eviction, Evict, Cause::Soft, [0, 300], 310, true),
        ] {
            let mut cluster = cluster(method, fallback);
            for second in blocked_at {
                cluster.note_blocked(at(second));
            }
            let case = format!("{method:?} {fallback:?} {kind:?} {blocked_at:?} {now}");
            assert_eq!(cluster.asks_budgets(kind, at(now)), asks, "{case}");
        }
    }
}
