//! What a decision means to the cluster: the victim's status is told, and the loop hears what became of that.

use super::{Agent, left_open::shorten};
use crate::fact::{AdmissionDecision, Fact};
use crate::{
    config::{EvictMethod, SoftTierFallback, Tell},
    delivery::{Fate, Notice, Outbox, Publication, Way},
    evict::{ApiEvictor, ClusterEvictor, Haste, ToldBefore},
    server::state::Answer,
};
use evictd_cluster_client::Actions;
use evictd_eviction::{
    Cause, Decision,
    departures::{Departure, Event, Telling},
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

/// The longest that a hard eviction waits for the API server's answer.
pub(super) const HARD_PATIENCE: Duration = Duration::from_millis(50);

/// How long notices are waited for when the agent ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// How long budgets may block all pods before `softTierFallback: evict` ends one here.
const DEADLINE: SignedDuration = SignedDuration::from_mins(1);
/// Budgets that blocked this long ago are of another time of pressure.
const FORGOTTEN: SignedDuration = SignedDuration::from_mins(5);

/// The way to tell the cluster of evictions.
pub struct Cluster {
    /// Takes notices.
    pub outbox: Outbox,
    /// How pods leave.
    pub method: EvictMethod,
    /// Whether a hard kill waits until that is told.
    pub tell: Tell,
    /// What happens where every budget blocks.
    pub fallback: SoftTierFallback,
    /// Asks for evictions.
    pub actions: Actions,
    /// Since when budgets block, and when one last did.
    pub blocked: Option<(Timestamp, Timestamp)>,
    /// Brings back what became of them.
    pub publications: mpsc::UnboundedReceiver<Publication>,
    /// How to end the reports of the Node's conditions and taints, and their task.
    pub reports: Reports,
}

/// The task that reports to the Node, until it is asked to end.
type Reports = Arc<Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>>;

/// The next notice whose fate is known; never, where there is no cluster. Cancel safe.
pub(super) async fn publication(cluster: Option<&mut Cluster>) -> Publication {
    let next = match cluster {
        Some(cluster) => cluster.publications.recv().await,
        None => None,
    };
    match next {
        Some(publication) => publication,
        None => std::future::pending().await,
    }
}

impl Cluster {
    /// Whether this eviction is left to the eviction API: a soft one, unless every budget blocks for too long.
    fn asks_budgets(&self, kind: Cause, now: Timestamp) -> bool {
        let too_long = self.fallback == SoftTierFallback::Evict
            && self
                .blocked
                .is_some_and(|(since, _)| now.duration_since(since) >= DEADLINE);
        self.method == EvictMethod::Eviction && kind == Cause::Soft && !too_long
    }

    /// How the API server is told of a pod that has this grace.
    fn way(&self, grace: Duration) -> Way {
        match self.method {
            EvictMethod::Delete => Way::Delete(grace.as_secs()),
            _ => Way::Status,
        }
    }

    /// Leaves the Node as it is from now on; the answer comes when nothing is under way any more.
    pub(super) fn hush(&self, answer: Answer) {
        let reports = Arc::clone(&self.reports);
        tokio::spawn(async move {
            // Held until it has ended: whoever asks meanwhile waits for that, too.
            let mut reports = reports.lock().await;
            if let Some((hush, task)) = reports.take() {
                tracing::info!("asked to: this node's conditions and taints are left as they are");
                // Its task may have ended by itself.
                let _ = hush.send(());
                let _ = task.await;
            }
            let _ = answer.send(Ok(json!({})));
        });
    }

    fn note_blocked(&mut self, now: Timestamp) {
        let since = self
            .blocked
            .filter(|(_, last)| now.duration_since(*last) < FORGOTTEN)
            .map_or(now, |(since, _)| since);
        self.blocked = Some((since, now));
    }
}

impl Agent {
    /// Whether the API server is asked whether this pod may go, by this decision.
    pub(super) fn asks(&self, decision: &Decision, uid: &str) -> bool {
        let cluster = self.ports.cluster.as_ref();
        let asks =
            cluster.is_some_and(|cluster| cluster.asks_budgets(decision.kind, decision.time));
        asks && !self.active.is_unlisted(uid)
    }

    /// The same for a pod that an earlier run has set on its way out.
    pub(super) fn asked(&self, departure: &Departure) -> bool {
        let cluster = self.ports.cluster.as_ref();
        let cause = departure.purpose.cause();
        cluster
            .zip(cause)
            .is_some_and(|(cluster, cause)| cluster.asks_budgets(cause, departure.since))
    }

    /// Sets a pod on its way out: where there is a cluster, as it is configured to leave there.
    pub(super) fn launch(&mut self, departure: &Departure, victim: Victim, grace: Duration) {
        let local = Arc::clone(&self.ports.evictor);
        let notice = self.notices.remove(&departure.id);
        let resumed = self.left_open.remove(&departure.id);
        if resumed && departure.telling == Telling::Told {
            let evictor = Arc::new(ToldBefore(local));
            return self.terminations.begin(evictor, victim, grace, false);
        }
        match (&self.ports.cluster, notice) {
            (Some(cluster), Some(mut notice)) => {
                if resumed {
                    shorten(&mut notice, grace);
                }
                let evictor = ClusterEvictor {
                    local,
                    outbox: cluster.outbox.clone(),
                    notice,
                    again: resumed,
                    // Nothing else is short of time, and what is told first is not started again.
                    tell: match departure.purpose.cause() {
                        Some(Cause::Hard) => cluster.tell,
                        Some(Cause::Soft | Cause::LocalStorage) | None => Tell::First,
                    },
                    haste: match departure.purpose.cause() {
                        Some(Cause::Soft) => Haste::Soft,
                        Some(Cause::Hard | Cause::LocalStorage) | None => {
                            Haste::Hard(self.patience(departure))
                        }
                    },
                    kubelet: !self.ports.room.is_machine(),
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
            _ => self.terminations.begin(local, victim, grace, false),
        }
    }

    /// What the API server is to be told of this one by us.
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
        // Of an unlisted pod nobody knows the name.
        let ours = ours && !self.active.is_unlisted(&pod.uid);
        ours.then(|| Notice::new(id, decision, pod, way))
    }

    /// What the API server is to be told of a decision; `condition` is the message of the pod's `DisruptionTarget`.
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

    /// Budgets do not let a pod go now: the next in rank is tried.
    pub(super) fn note_blocked(&mut self, now: Timestamp) {
        if let Some(cluster) = &mut self.ports.cluster {
            cluster.note_blocked(now);
        }
    }

    /// A budget has let a pod go.
    pub(super) fn note_let_go(&mut self) {
        if let Some(cluster) = &mut self.ports.cluster {
            cluster.blocked = None;
        }
    }

    /// A quarter of what is left until there is nothing left, at the present rate.
    fn patience(&self, departure: &Departure) -> Duration {
        let signal = departure.purpose.signal();
        let left = signal.and_then(|signal| {
            let mut watched = self.watched.iter();
            let (_, seen, _) = watched.find(|(watched, ..)| *watched == signal)?;
            self.pace.exhausted_in(departure.since, signal, seen)
        });
        left.map_or(HARD_PATIENCE, |left| HARD_PATIENCE.min(left / 4))
    }

    /// What has not landed by now stays in the history, and the next start takes it up.
    pub(super) async fn close_cluster(&mut self) {
        let Some(mut cluster) = self.ports.cluster.take() else {
            return;
        };
        let landed = async {
            while cluster.outbox.waits() > 0
                && let Some(publication) = cluster.publications.recv().await
            {
                self.published(&publication);
            }
        };
        if tokio::time::timeout(FAREWELL, landed).await.is_err() {
            tracing::warn!(
                "{} evictions are not known to be told yet; the next start sees to them",
                cluster.outbox.waits()
            );
        }
        while let Ok(publication) = cluster.publications.try_recv() {
            self.published(&publication);
        }
    }

    pub(super) fn published(&mut self, publication: &Publication) {
        let told = !matches!(publication.fate, Fate::NotPublished(_));
        let id = publication.id.clone();
        self.report(Event::Told { id, told });
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
        let (outbox, publications) = Outbox::new(actions.clone(), watch::channel(true).1);
        Cluster {
            outbox,
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
        let (hush, hushed) = oneshot::channel::<()>();
        let (finish, finished) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            hushed.await.unwrap();
            finished.await.unwrap();
        });
        *cluster.reports.lock().await = Some((hush, task));
        let (first, mut told_first) = oneshot::channel();
        let (second, mut told_second) = oneshot::channel();
        cluster.hush(first);
        cluster.hush(second);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert!(told_first.try_recv().is_err() && told_second.try_recv().is_err());
        finish.send(()).unwrap();
        assert!(told_first.await.unwrap().is_ok() && told_second.await.unwrap().is_ok());
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
            // Another time of pressure begins anew.
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
