//! Informs the API server of evicted pods, for as long as it takes. The main loop does not wait for it.
//!
//! ```text
//!   Notice -> post -> first attempt -> retries with back-off -> checks whether it stays -> Fate -> publication()
//!                          |                   ^----------------------' overwritten by the kubelet
//!                          `-> Posted: whether it succeeded, for callers that wait a little
//! ```

mod attempts;
mod node;
mod pod_gc;
mod records;
#[cfg(test)]
mod tests;

pub use evictd_eviction::record::{Notice, Way};
pub use node::{
    ANNOTATIONS, CALM_HEARTBEAT, HEARTBEAT, NodeReporter, Pressure, all_nodes,
    daemon_set_is_deleted,
};
pub use pod_gc::PodGarbageCollector;
pub use records::clean_pods;

use attempts::{deliver, keep_words};
use evictd_cluster_client::Actions;
use evictd_eviction::record;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, oneshot, watch};

/// The most notices that may be pending; further ones are refused.
const MOST: usize = 256;

/// The final result of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The pod's status shows it, and will not be overwritten.
    Published,
    /// The pod no longer exists, so there is no status to write; the history has the eviction.
    Recorded(&'static str),
    /// It will not be published; says why.
    NotPublished(String),
}

impl Fate {
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
    /// The pod's UID.
    pub uid: String,
    /// The result.
    pub fate: Fate,
}

/// Receives whether the first attempt succeeded.
pub type Posted = oneshot::Receiver<bool>;

/// Takes notices and delivers them. Clones share their state.
#[derive(Clone)]
pub struct DeliveryQueue {
    actions: Actions,
    /// Whether the Node's taints are as they should be.
    settled: watch::Receiver<bool>,
    /// The pending notices by pod UID: the decision, and how to withdraw the notice from its task.
    waiting: Arc<Mutex<BTreeMap<String, Waiting>>>,
    told: mpsc::UnboundedSender<Publication>,
}

struct Waiting {
    id: String,
    withdraw: Option<oneshot::Sender<String>>,
}

impl Waiting {
    fn withdraw(&mut self, why: String) {
        if let Some(withdraw) = self.withdraw.take() {
            // The task may have ended just now.
            let _ = withdraw.send(why);
        }
    }
}

impl DeliveryQueue {
    /// Delivers through this client, once the Node's taints are set (`settled`) or a short time has passed. The
    /// results arrive in the returned channel, which never holds more than the number of notices.
    pub fn new(
        actions: Actions,
        settled: watch::Receiver<bool>,
    ) -> (Self, mpsc::UnboundedReceiver<Publication>) {
        let (told, publications) = mpsc::unbounded_channel();
        let delivery_queue = Self {
            actions,
            settled,
            waiting: Arc::default(),
            told,
        };
        (delivery_queue, publications)
    }

    /// Starts to deliver a notice. An earlier pending notice about the same pod is withdrawn. Must be called inside
    /// the runtime.
    pub fn post(&self, notice: Notice) -> Posted {
        self.begin(notice, false)
    }

    /// The same for a notice that an earlier run may have delivered: checks the pod before the first patch.
    pub fn post_again(&self, notice: Notice) -> Posted {
        self.begin(notice, true)
    }

    fn begin(&self, notice: Notice, again: bool) -> Posted {
        let (first, posted) = oneshot::channel();
        let (withdraw, withdrawn) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.len() >= MOST && !waiting.contains_key(&notice.uid) {
            drop(waiting);
            let why = format!("{MOST} others already wait for the API server");
            self.tell(&notice, Fate::NotPublished(why));
            return posted;
        }
        let entry = Waiting {
            id: notice.id.clone(),
            withdraw: Some(withdraw),
        };
        if let Some(mut earlier) = waiting.insert(notice.uid.clone(), entry) {
            earlier.withdraw(format!("decision {} came after it", notice.id));
        }
        drop(waiting);
        let delivery_queue = self.clone();
        tokio::spawn(async move {
            let delivered = tokio::select! {
                biased;
                delivered = deliver(&delivery_queue, &notice, again, first) => delivered,
                why = withdrawn => Fate::NotPublished(why.unwrap_or_default()).into(),
            };
            delivery_queue.close(&notice, delivered.fate);
            if delivered.lacks_words {
                keep_words(&delivery_queue, &notice).await;
            }
        });
        posted
    }

    /// Withdraws the pending notice about this pod.
    pub fn withdraw(&self, uid: &str, why: &str) {
        if let Some(entry) = self.waiting().get_mut(uid) {
            entry.withdraw(why.to_owned());
        }
    }

    /// The number of notices whose result was not received yet.
    pub fn waits(&self) -> usize {
        self.waiting().len()
    }

    /// Ends a notice with this result.
    fn close(&self, notice: &Notice, fate: Fate) {
        let mut waiting = self.waiting();
        self.tell(notice, fate);
        if waiting
            .get(&notice.uid)
            .is_some_and(|entry| entry.id == notice.id)
        {
            waiting.remove(&notice.uid);
        }
    }

    fn tell(&self, notice: &Notice, fate: Fate) {
        let publication = Publication {
            id: notice.id.clone(),
            pod: notice.pod(),
            uid: notice.uid.clone(),
            fate,
        };
        // The receiver is dropped only with the agent.
        let _ = self.told.send(publication);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
