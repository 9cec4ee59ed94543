//! Informs the API server of evicted pods, for as long as it takes. The main loop does not wait for it.
//!
//! ```text
//!   Notice -> submit -> first attempt -> retries with back-off -> Accepted -> checks whether it stays -> Closed
//!                           |                   ^----------------------------------' overwritten by the kubelet
//!                           `-> FirstAttempt: whether it succeeded, for callers that wait a little
//! ```

mod attempts;
mod node;
mod pod_gc;
mod records;
#[cfg(test)]
mod tests;

pub(crate) use evictd_decision::record::{Notice, Way};
pub(crate) use node::Pressure;
pub use node::{
    ANNOTATIONS, CALM_HEARTBEAT, HEARTBEAT, NodeReporter, all_nodes, daemon_set_is_deleted,
};
pub(crate) use pod_gc::PodGarbageCollector;
pub use records::clean_pods;

use attempts::{deliver, restore_reason};
use evictd_cluster_client::Actions;
use evictd_decision::record;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, oneshot, watch};

/// The most notices that may be pending; further ones are refused.
const MAX_PENDING: usize = 256;

/// The final result of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeliveryOutcome {
    /// The pod's status shows it, and will not be overwritten.
    Published,
    /// The pod no longer exists, so there is no status to write; the history has the eviction.
    Recorded(&'static str),
    /// It will not be published; says why.
    NotPublished(String),
}

impl DeliveryOutcome {
    /// The word for this result in the history and in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Recorded(_) => "recorded",
            Self::NotPublished(_) => "not published",
        }
    }

    /// As a record stores it.
    pub fn record(&self) -> record::Publication {
        match self {
            Self::Published => record::Publication::Published,
            Self::Recorded(why) => record::Publication::Recorded {
                why: (*why).to_owned(),
            },
            Self::NotPublished(why) => record::Publication::NotPublished { why: why.clone() },
        }
    }
}

/// A notice with its final result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// UID of the pod.
    pub uid: String,
    /// Whether the pod's status shows the decision.
    pub outcome: DeliveryOutcome,
}

/// How far a notice is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// The API server has accepted the notice of this decision for the first time. The pod's kubelet may not have
    /// seen it yet.
    Accepted {
        /// Id of the decision.
        id: String,
    },
    /// The final result.
    Closed(Publication),
}

/// Receives whether the first attempt succeeded.
pub(crate) type FirstAttempt = oneshot::Receiver<bool>;

/// Takes notices and delivers them. Clones share their state.
#[derive(Clone)]
pub struct DeliveryQueue {
    actions: Actions,
    /// Whether the Node's taints are as they should be.
    settled: watch::Receiver<bool>,
    /// The pending notices by pod UID: the decision, and how to withdraw the notice from its task.
    pending: Arc<Mutex<BTreeMap<String, PendingNotice>>>,
    results: mpsc::UnboundedSender<Progress>,
}

struct PendingNotice {
    id: String,
    withdraw: Option<oneshot::Sender<String>>,
}

impl PendingNotice {
    fn withdraw(&mut self, why: String) {
        if let Some(withdraw) = self.withdraw.take() {
            // The task may have ended just now.
            let _ = withdraw.send(why);
        }
    }
}

impl DeliveryQueue {
    /// Delivers through this client, once the Node's taints are set (`settled`) or a short time has passed. The
    /// results arrive in the returned channel, which never holds more than two for each notice.
    pub fn new(
        actions: Actions,
        settled: watch::Receiver<bool>,
    ) -> (Self, mpsc::UnboundedReceiver<Progress>) {
        let (results, publications) = mpsc::unbounded_channel();
        let delivery_queue = Self {
            actions,
            settled,
            pending: Arc::default(),
            results,
        };
        (delivery_queue, publications)
    }

    /// Starts to deliver a notice. An earlier pending notice about the same pod is withdrawn. Must be called inside
    /// the runtime.
    pub fn submit(&self, notice: Notice) -> FirstAttempt {
        self.begin(notice, false)
    }

    /// The same for a notice that an earlier run may have delivered: checks the pod before the first patch.
    pub(crate) fn submit_again(&self, notice: Notice) -> FirstAttempt {
        self.begin(notice, true)
    }

    fn begin(&self, notice: Notice, again: bool) -> FirstAttempt {
        let (report_first, first_attempt) = oneshot::channel();
        let (withdraw, withdrawn) = oneshot::channel();
        let mut pending = self.pending();
        if pending.len() >= MAX_PENDING && !pending.contains_key(&notice.uid) {
            drop(pending);
            let why = format!("{MAX_PENDING} others already wait for the API server");
            self.publish(&notice, DeliveryOutcome::NotPublished(why));
            return first_attempt;
        }
        let entry = PendingNotice {
            id: notice.id.clone(),
            withdraw: Some(withdraw),
        };
        if let Some(mut earlier) = pending.insert(notice.uid.clone(), entry) {
            // Both would write the same status, and the later one has to be what remains.
            earlier.withdraw(format!("decision {} came after it", notice.id));
        }
        drop(pending);
        let delivery_queue = self.clone();
        tokio::spawn(async move {
            let delivered = tokio::select! {
                biased;
                delivered = deliver(&delivery_queue, &notice, again, report_first) => delivered,
                why = withdrawn => DeliveryOutcome::NotPublished(why.unwrap_or_default()),
            };
            let shown = delivered == DeliveryOutcome::Published && notice.way == Way::Status;
            delivery_queue.finish(&notice, delivered);
            if shown {
                restore_reason(&delivery_queue, &notice).await;
            }
        });
        first_attempt
    }

    /// Writes the reason of a notice again where its kubelet empties it. An earlier run has published the notice.
    pub(crate) fn watch_reason(&self, notice: Notice) {
        if notice.way == Way::Status {
            let delivery_queue = self.clone();
            tokio::spawn(async move { restore_reason(&delivery_queue, &notice).await });
        }
    }

    /// Withdraws the pending notice about this pod.
    pub fn withdraw(&self, uid: &str, why: &str) {
        if let Some(entry) = self.pending().get_mut(uid) {
            entry.withdraw(why.to_owned());
        }
    }

    /// The number of notices whose result was not received yet.
    pub fn pending_count(&self) -> usize {
        self.pending().len()
    }

    /// Ends a notice with this result.
    fn finish(&self, notice: &Notice, outcome: DeliveryOutcome) {
        let mut pending = self.pending();
        self.publish(notice, outcome);
        if pending
            .get(&notice.uid)
            .is_some_and(|entry| entry.id == notice.id)
        {
            pending.remove(&notice.uid);
        }
    }

    fn publish(&self, notice: &Notice, outcome: DeliveryOutcome) {
        let publication = Publication {
            id: notice.id.clone(),
            pod: notice.pod(),
            uid: notice.uid.clone(),
            outcome,
        };
        self.report(Progress::Closed(publication));
    }

    fn report(&self, progress: Progress) {
        // The receiver is dropped only with the agent.
        let _ = self.results.send(progress);
    }

    fn pending(&self) -> MutexGuard<'_, BTreeMap<String, PendingNotice>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
