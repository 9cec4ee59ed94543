//! Informs the cluster of decisions: publishes the victim's status, and receives the results for the main loop.

use super::{Agent, unfinished::shorten};
use crate::fact::{AdmissionDecision, Fact};
use crate::{
    config::{EvictMethod, SoftTierFallback, Tell},
    delivery::{DeliveryOutcome, DeliveryQueue, Notice, Progress, Publication, Way},
    evict::{ApiEvictor, ClusterEvictor, LocalEvictor, ResumedEvictor, Urgency},
    server::state::Answer,
};
use evictd_cluster_client::Actions;
use evictd_eviction::{
    Cause, Decision,
    departures::{Departure, Event, NoticeState},
    record,
};
use evictd_kernel::kill::Victim;
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::{Mutex, mpsc, oneshot},
    task::JoinHandle,
};

/// The longest that an eviction for a hard threshold waits for the API server's answer.
pub(super) const HARD_ANSWER_TIMEOUT: Duration = Duration::from_millis(50);

/// How long to wait for pending notices when the agent stops.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(1);

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
    fn asks_budgets(&self, kind: Cause, now: Timestamp) -> bool {
        let too_long = self.fallback == SoftTierFallback::Evict
            && self
                .blocked
                .is_some_and(|(since, _)| now.duration_since(since) >= BLOCK_LIMIT);
        self.method == EvictMethod::Eviction && kind == Cause::Soft && !too_long
    }

    /// How to inform the API server of a pod with this grace period.
    fn way(&self, grace: Duration) -> Way {
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

    fn note_blocked(&mut self, now: Timestamp) {
        let since = self
            .blocked
            .filter(|(_, last)| now.duration_since(*last) < BLOCK_EXPIRY)
            .map_or(now, |(since, _)| since);
        self.blocked = Some((since, now));
    }
}

impl Agent {
    /// Whether the API server is asked for permission to evict this pod by this decision.
    pub(super) fn asks(&self, decision: &Decision, uid: &str) -> bool {
        let cluster = self.ports.cluster.as_ref();
        let asks =
            cluster.is_some_and(|cluster| cluster.asks_budgets(decision.kind, decision.time));
        let is_static = self
            .active
            .listed(uid)
            .is_some_and(|pod| pod.is_from_file());
        asks && !is_static && !self.active.is_unlisted(uid)
    }

    /// The same for a pod that an earlier run was terminating.
    pub(super) fn asked(&self, departure: &Departure) -> bool {
        let cluster = self.ports.cluster.as_ref();
        let cause = departure.purpose.cause();
        cluster
            .zip(cause)
            .is_some_and(|(cluster, cause)| cluster.asks_budgets(cause, departure.since))
    }

    /// Starts the termination of a pod: with a cluster, in the configured way.
    pub(super) fn start_termination(
        &mut self,
        departure: &Departure,
        victim: Victim,
        grace: Duration,
    ) {
        let local = Arc::clone(&self.ports.evictor);
        let notice = self.notices.remove(&departure.id);
        let resumed = self.unfinished.remove(&departure.id);
        if resumed && departure.notice_state == NoticeState::Sent {
            let evictor = Arc::new(ResumedEvictor(local));
            return self.terminations.begin(evictor, victim, grace, false);
        }
        match (&self.ports.cluster, notice) {
            (Some(cluster), Some(mut notice)) => {
                if resumed {
                    shorten(&mut notice, grace);
                }
                let evictor = ClusterEvictor {
                    local: self.local_evictor(),
                    delivery_queue: cluster.delivery_queue.clone(),
                    notice,
                    again: resumed,
                    // For other reasons there is time to wait. If the API server is informed first, no controller
                    // starts the pod here again.
                    tell: match departure.purpose.cause() {
                        Some(Cause::Hard) => cluster.tell,
                        Some(Cause::Soft | Cause::LocalStorage) | None => Tell::First,
                    },
                    urgency: match departure.purpose.cause() {
                        Some(Cause::Soft) => Urgency::Soft,
                        Some(Cause::Hard | Cause::LocalStorage) | None => {
                            Urgency::Hard(self.answer_timeout(departure))
                        }
                    },
                    kubelet: !self.ports.allocatable.is_machine(),
                };
                self.terminations
                    .begin(Arc::new(evictor), victim, grace, false);
            }
            (Some(cluster), None) if departure.asked => {
                let (namespace, name) = departure.pod.split_once('/').unwrap_or_default();
                let evictor = ApiEvictor {
                    local,
                    actions: cluster.actions.clone(),
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                };
                self.terminations
                    .begin(Arc::new(evictor), victim, grace, false);
            }
            _ => {
                let evictor = Arc::new(self.local_evictor());
                self.terminations.begin(evictor, victim, grace, false);
            }
        }
    }

    /// Terminates pods by the configured method.
    pub(super) fn local_evictor(&self) -> LocalEvictor {
        LocalEvictor {
            cgroups: Arc::clone(&self.ports.evictor),
            runtime: self.ports.runtime.clone(),
        }
    }

    /// The notice to the API server about this pod; `None` if evictd does not send one.
    pub(super) fn notice(
        &self,
        id: &str,
        decision: &Decision,
        pod: &Pod,
        grace: Duration,
    ) -> Option<Notice> {
        let cluster = self.ports.cluster.as_ref()?;
        let way = cluster.way(grace);
        let ours = !cluster.asks_budgets(decision.kind, decision.time);
        // The name of an unlisted pod is unknown. A kubelet overwrites the status of a static one for ever.
        let ours = ours && !self.active.is_unlisted(&pod.uid) && !pod.is_from_file();
        ours.then(|| Notice::new(id, decision, pod, way))
    }

    /// The notice about an admission decision; `condition` is the message of the pod's `DisruptionTarget`.
    pub(super) fn notice_of(
        &self,
        decision: &AdmissionDecision,
        condition: Option<&str>,
    ) -> Option<Notice> {
        let cluster = self.ports.cluster.as_ref()?;
        let (id, pod) = (&decision.id, &decision.pod);
        let (reason, message) = (&decision.reason, &decision.message);
        Some(Notice {
            id: id.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            reason: reason.clone(),
            message: message.clone(),
            disruption_target: condition.map(str::to_owned),
            way: cluster.way(decision.grace),
            record: record::brief(id, decision.time, decision.kind().as_str(), reason, message),
            time: decision.time,
        })
    }

    /// Notes that budgets forbid an eviction now; the next pod in the ranking is tried.
    pub(super) fn note_blocked(&mut self, now: Timestamp) {
        if let Some(cluster) = &mut self.ports.cluster {
            cluster.note_blocked(now);
        }
    }

    /// Notes that a budget allowed an eviction.
    pub(super) fn note_allowed(&mut self) {
        if let Some(cluster) = &mut self.ports.cluster {
            cluster.blocked = None;
        }
    }

    /// How long to wait for the API server: a quarter of the time until the resource is exhausted at the present
    /// rate.
    fn answer_timeout(&self, departure: &Departure) -> Duration {
        let signal = departure.purpose.signal();
        let forecast = self.housekeeper.forecast();
        let left = signal.and_then(|signal| forecast.exhausted_in(departure.since, signal));
        left.map_or(HARD_ANSWER_TIMEOUT, |left| {
            HARD_ANSWER_TIMEOUT.min(left.unsigned_abs() / 4)
        })
    }

    /// Waits for pending notices. Those without a result by then stay in the history for the next start.
    pub(super) async fn close_cluster(&mut self) {
        let Some(mut cluster) = self.ports.cluster.take() else {
            return;
        };
        let all_published = async {
            while cluster.delivery_queue.pending_count() > 0
                && let Some(progress) = cluster.publications.recv().await
            {
                self.note_progress(progress);
            }
        };
        if tokio::time::timeout(SHUTDOWN_WAIT, all_published)
            .await
            .is_err()
        {
            tracing::warn!(
                "the API server has not confirmed {} evictions yet; the next start reports them again",
                cluster.delivery_queue.pending_count()
            );
        }
        while let Ok(progress) = cluster.publications.try_recv() {
            self.note_progress(progress);
        }
    }

    pub(super) fn note_progress(&mut self, progress: Progress) {
        match progress {
            Progress::Accepted { id } => self.report(Event::NoticeAccepted { id }),
            Progress::Closed(publication) => self.published(&publication),
        }
    }

    pub(super) fn published(&mut self, publication: &Publication) {
        let sent = !matches!(publication.outcome, DeliveryOutcome::NotPublished(_));
        let id = publication.id.clone();
        self.report(Event::NoticeClosed { id, sent });
        self.ports.publishers.publish(&Fact::Published(publication));
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
    async fn who_asks_twice_to_leave_the_node_as_it_is_waits_twice() {
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
