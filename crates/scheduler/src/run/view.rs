//! What others may see of a running scheduler: which pods wait and on what, and the last decisions with their evidence.

use evictd_pod::wire;
use evictd_scheduling::{
    DecidingScore, PluginName, PluginSet, Pool, RejectedNodes, SchedulingQueue, waking_events,
};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

/// How many decisions are kept.
const DECISIONS: usize = 1000;
/// The most waiting pods that are listed; the count tells of all.
const LISTED: usize = 1000;

/// Shared with whoever asks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct View {
    seen: Arc<Mutex<Seen>>,
    /// Somebody has asked which pods wait.
    asked: Arc<Notify>,
}

#[derive(Debug, Default)]
struct Seen {
    decisions: VecDeque<Decision>,
    asked: Vec<Asked>,
}

/// Which pods wait?
#[derive(Debug)]
pub(super) struct Asked {
    /// Only this one: namespace and name.
    pub(super) pod: Option<(String, String)>,
    pub(super) reply: oneshot::Sender<Pending>,
}

/// What would help a pod that waits.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Help {
    /// On how many nodes it fits as it is.
    pub feasible: usize,
    /// For the nodes that need the fewest changes, lists of changes of which any is enough.
    pub remedies: BTreeMap<String, Vec<Vec<String>>>,
}

/// Which pods wait.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pending {
    /// When that was so.
    pub time: Option<Timestamp>,
    /// How many wait in all.
    pub count: usize,
    /// They, or the first of them.
    pub pods: Vec<Waiting>,
    /// What would help the one that was asked about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub help: Option<Help>,
}

/// A pod that waits.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    /// `namespace/name`.
    pub pod: String,
    /// Where it waits: `active`, `backoff`, `unschedulable`, `gated`.
    pub pool: &'static str,
    /// Since when, counted from its last attempt.
    pub since: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// The plugins that kept it away, or gate it.
    pub plugins: Vec<&'static str>,
    /// The events that have it tried again.
    pub wakes: Vec<&'static str>,
    /// What it was told last.
    pub message: String,
    /// The node that is being freed for it.
    pub nominated: Option<String>,
}

/// A decision.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When it was made.
    pub time: Timestamp,
    /// `namespace/name`.
    pub pod: String,
    /// Which attempt it was.
    pub attempt: u32,
    /// On how many nodes the pod fitted.
    pub feasible: usize,
    /// The node, if there was one.
    pub node: Option<String>,
    /// The highest total, if nodes were compared.
    pub score: Option<i64>,
    /// How many nodes had it.
    pub equal: usize,
    /// The next best node, and what each plugin gave to it and to the chosen one.
    pub runner_up: Option<String>,
    /// See [`Decision::runner_up`].
    pub scores: Vec<DecidingScore>,
    /// The nodes that would not do, by their reasons.
    #[serde(serialize_with = "as_list")]
    pub rejections: Arc<[RejectedNodes]>,
    /// What the pod was told that found none.
    pub message: Option<String>,
    /// The node that is being freed for it.
    pub nominated: Option<String>,
    /// The pods that go for it.
    pub victims: Vec<String>,
}

impl View {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Until somebody asks which pods wait.
    pub(super) async fn is_asked(&self) {
        self.asked.notified().await;
    }

    /// What was asked since the last call.
    pub(super) fn take_asked(&self) -> Vec<Asked> {
        let mut asked = Vec::new();
        self.change(|seen| asked = std::mem::take(&mut seen.asked));
        asked
    }

    /// Keeps a decision; the oldest goes.
    pub(super) fn decided(&self, decision: Decision) {
        self.change(|seen| {
            if seen.decisions.len() == DECISIONS {
                seen.decisions.pop_front();
            }
            seen.decisions.push_back(decision);
        });
    }

    /// Which pods wait, as JSON. With `pod=NAMESPACE/NAME` in the query only that one, and what would help it.
    pub async fn pending(&self, query: &str) -> String {
        let (reply, answer) = oneshot::channel();
        let pod = pod_in(query).and_then(|pod| pod.split_once('/'));
        let pod = pod.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        self.change(|seen| seen.asked.push(Asked { pod, reply }));
        self.asked.notify_one();
        // A scheduler that ends answers no more.
        let pending = answer.await.unwrap_or_default();
        serde_json::to_string(&pending).unwrap_or_default()
    }

    /// The last decisions, as JSON; the newest last. With `pod=NAMESPACE/NAME` in the query only those about that pod.
    pub fn decisions(&self, query: &str) -> String {
        let pod = pod_in(query);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |decision: &&Decision| pod.is_none_or(|pod| decision.pod == pod);
        let decisions: Vec<&Decision> = seen.decisions.iter().filter(wanted).collect();
        serde_json::to_string(&decisions).unwrap_or_default()
    }
}

impl Pending {
    /// What a queue holds, whose own clock is `steady`; perhaps only this pod.
    pub(super) fn of(
        queue: &SchedulingQueue,
        (now, steady): (Timestamp, Timestamp),
        pod: Option<&(String, String)>,
    ) -> Self {
        let wall = |since: Timestamp| {
            let waited = steady.duration_since(since);
            now.checked_sub(waited).unwrap_or(since)
        };
        let pools = [
            (Pool::Active, "active"),
            (Pool::Backoff, "backoff"),
            (Pool::ErrorBackoff, "backoff"),
            (Pool::Unschedulable, "unschedulable"),
            (Pool::Gated, "gated"),
        ];
        let all = pools.into_iter().flat_map(|(pool, name)| {
            let keys = queue.pods_in(pool).into_iter();
            keys.map(move |key| (key, name))
        });
        let wanted = |own: &wire::Metadata| {
            pod.is_none_or(|(namespace, name)| {
                own.namespace_or_default() == namespace && own.name == *name
            })
        };
        let pods = all.filter_map(|(key, pool)| {
            let pod = queue.pod(&key).filter(|pod| wanted(&pod.metadata))?;
            let waits = queue.queued_pod(&key)?;
            Some(Waiting {
                pod: name(pod),
                pool,
                since: wall(waits.since),
                attempts: waits.attempts,
                plugins: waits.rejectors.iter().map(PluginName::as_str).collect(),
                wakes: wakes(waits.rejectors),
                message: told(pod),
                nominated: queue.nominated_node(&key).map(|node| node.to_string()),
            })
        });
        Self {
            time: Some(now),
            count: queue.len(),
            pods: pods.take(LISTED).collect(),
            help: None,
        }
    }
}

fn as_list<S: Serializer>(shared: &Arc<[RejectedNodes]>, serializer: S) -> Result<S::Ok, S::Error> {
    shared[..].serialize(serializer)
}

/// The pod that a query names.
fn pod_in(query: &str) -> Option<&str> {
    query.split('&').find_map(|part| part.strip_prefix("pod="))
}

/// The events that have a pod tried again that these plugins rejected.
fn wakes(rejectors: PluginSet) -> Vec<&'static str> {
    let events = waking_events(rejectors).into_iter();
    events.map(|(event, _)| event).collect()
}

/// `namespace/name`.
pub(super) fn name(pod: &wire::Pod) -> String {
    format!(
        "{}/{}",
        pod.metadata.namespace_or_default(),
        pod.metadata.name
    )
}

/// What the pod's condition says.
fn told(pod: &wire::Pod) -> String {
    let mut conditions = pod.status.conditions.iter();
    let told = conditions.find(|own| own.kind == "PodScheduled" && own.status == "False");
    told.map_or(String::new(), |own| own.message.clone())
}
