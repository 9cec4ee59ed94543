//! What the API server must be told of evicted pods, for as long as it takes. The loop waits for none of it.
//!
//! ```text
//!   Notice -> post -> first attempt -> retries with back-off -> looks whether it lasts -> Fate -> publication()
//!                          |                   ^----------------------' written over by its kubelet
//!                          `-> Posted: whether it landed, for whoever waits a little
//! ```

mod attempts;
mod node;
mod records;
mod sweeper;
#[cfg(test)]
mod tests;

pub use evictd_eviction::record::{Notice, Way};
pub use node::{
    ANNOTATIONS, CALM_HEARTBEAT, HEARTBEAT, NodeReporter, Pressure, all_nodes,
    daemon_set_is_deleted,
};
pub use records::clean_pods;
pub use sweeper::Sweeper;

use attempts::{deliver, keep_words};
use evictd_cluster_client::Actions;
use evictd_eviction::record;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, oneshot, watch};

/// Notices that may wait for the API server; one more is not taken on.
const MOST: usize = 256;

/// What became of a notice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    /// The pod's status says it, and nobody writes over that.
    Published,
    /// There is no such pod any more: nobody is left to be told, and the history has it.
    Recorded(&'static str),
    /// It will not be said; why.
    NotPublished(String),
}

impl Fate {
    /// The word in the history and in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Published => "published",
            Self::Recorded(_) => "recorded",
            Self::NotPublished(_) => "not published",
        }
    }

    /// As the record has it.
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

/// A notice whose fate is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// What became of it.
    pub fate: Fate,
}

/// Resolves to whether the first attempt landed.
pub type Posted = oneshot::Receiver<bool>;

/// Takes notices and keeps at them. Clones share everything.
#[derive(Clone)]
pub struct Outbox {
    actions: Actions,
    /// Whether the Node keeps new pods away as it should.
    settled: watch::Receiver<bool>,
    /// How to withdraw those that wait: by UID, the decision and the way to its task.
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
            // It may have landed this moment.
            let _ = withdraw.send(why);
        }
    }
}

impl Outbox {
    /// Through this client, a little after the Node keeps new pods away, which `settled` says; the fates arrive in the
    /// channel, of which there are never more than notices.
    pub fn new(
        actions: Actions,
        settled: watch::Receiver<bool>,
    ) -> (Self, mpsc::UnboundedReceiver<Publication>) {
        let (told, publications) = mpsc::unbounded_channel();
        let outbox = Self {
            actions,
            settled,
            waiting: Arc::default(),
            told,
        };
        (outbox, publications)
    }

    /// Begins to tell it. An earlier notice on the same pod that has not landed is withdrawn. To be called within a
    /// runtime.
    pub fn post(&self, notice: Notice) -> Posted {
        self.begin(notice, false)
    }

    /// The same with one that an earlier run of this daemon may have told: it looks before it asks.
    pub fn post_again(&self, notice: Notice) -> Posted {
        self.begin(notice, true)
    }

    fn begin(&self, notice: Notice, again: bool) -> Posted {
        let (first, posted) = oneshot::channel();
        let (withdraw, withdrawn) = oneshot::channel();
        let mut waiting = self.waiting();
        if waiting.len() >= MOST && !waiting.contains_key(&notice.uid) {
            drop(waiting);
            let why = format!("{MOST} others wait for the API server already");
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
        let outbox = self.clone();
        tokio::spawn(async move {
            let delivered = tokio::select! {
                biased;
                delivered = deliver(&outbox, &notice, again, first) => delivered,
                why = withdrawn => Fate::NotPublished(why.unwrap_or_default()).into(),
            };
            outbox.close(&notice, delivered.fate);
            if delivered.lacks_words {
                keep_words(&outbox, &notice).await;
            }
        });
        posted
    }

    /// Gives up the notice on this pod, unless it is known to last.
    pub fn withdraw(&self, uid: &str, why: &str) {
        if let Some(entry) = self.waiting().get_mut(uid) {
            entry.withdraw(why.to_owned());
        }
    }

    /// Of how many the fate is not told yet.
    pub fn waits(&self) -> usize {
        self.waiting().len()
    }

    /// It waits no more, and is told to have come to this.
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
        // The receiver is only gone when the agent is.
        let _ = self.told.send(publication);
    }

    fn waiting(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
