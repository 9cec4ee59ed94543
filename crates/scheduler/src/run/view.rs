//! The state of a running scheduler as the secure port shows it: the pending pods, and the last decisions with their evidence.

use evictd_pod::wire;
use evictd_scheduling::{
    DecidingScore, PluginName, PluginSet, Pool, RejectedNodes, Scheduler, SchedulingQueue,
    waking_events,
};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, oneshot};

/// How many decisions are kept.
const DECISIONS: usize = 1000;
/// The most pending pods that are listed. The count includes the others.
const LISTED: usize = 1000;

/// Shared by the engine and the secure port. Clones share the state.
#[derive(Debug, Clone, Default)]
pub(crate) struct View {
    state: Arc<Mutex<State>>,
    /// A request for the pending pods has arrived.
    requested: Arc<Notify>,
}

#[derive(Debug, Default)]
struct State {
    decisions: VecDeque<Decision>,
    requests: Vec<PendingRequest>,
}

/// A request for the pending pods. Only the engine can answer it, because it owns the queue.
#[derive(Debug)]
pub(super) struct PendingRequest {
    /// Only this one: namespace and name.
    pub(super) pod: Option<(String, String)>,
    pub(super) reply: oneshot::Sender<Pending>,
}

/// Changes after which a pending pod would fit.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Suggestions {
    /// On how many nodes it fits as it is.
    pub(crate) feasible: usize,
    /// For the nodes that need the fewest changes, lists of changes. Any of the lists is enough.
    #[serde(rename = "remedies")]
    pub(crate) by_node: IndexMap<String, Vec<Vec<String>>>,
    /// The objects that keep it from every node, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) blockers: Vec<String>,
    /// The obstacles on the nearest nodes, with amounts and names.
    pub(crate) obstacles: IndexMap<String, String>,
    /// Whether the look ended at a limit of cost or time.
    #[serde(rename = "incomplete", skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_incomplete: bool,
}

/// The pending pods, as JSON has them.
#[derive(Debug, Default, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Pending {
    pub(crate) time: Option<Timestamp>,
    /// How many there are, listed or not.
    pub(crate) count: usize,
    pub(crate) pods: Vec<PendingPod>,
    /// In-place resizes that their nodes have deferred. Their pods run.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) resizes: Vec<PendingResize>,
    /// For a request about one pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) help: Option<Suggestions>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingPod {
    /// `namespace/name`.
    pub(crate) pod: String,
    /// `active`, `backoff`, `unschedulable`, `gated`.
    pub(crate) pool: &'static str,
    /// Counted from its last attempt.
    pub(crate) since: Timestamp,
    pub(crate) attempts: u32,
    /// The plugins that rejected or gate it.
    pub(crate) plugins: Vec<&'static str>,
    /// The events after which it is tried again.
    pub(crate) wakes: Vec<&'static str>,
    /// Why it is gated, or that of its condition.
    pub(crate) message: String,
    /// The node that is being freed for it.
    pub(crate) nominated: Option<String>,
}

/// A deferred in-place resize.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingResize {
    /// `namespace/name`.
    pub(crate) pod: String,
    pub(crate) node: String,
    /// Counted from its last attempt.
    pub(crate) since: Timestamp,
    pub(crate) attempts: u32,
    /// The reason that it waits.
    pub(crate) message: String,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Decision {
    pub(crate) time: Timestamp,
    /// `namespace/name`.
    pub(crate) pod: String,
    /// Counted from 1.
    pub(crate) attempt: u32,
    /// On how many nodes the pod fitted.
    pub(crate) feasible: usize,
    pub(crate) node: Option<String>,
    /// The highest total, if nodes were compared.
    pub(crate) score: Option<i64>,
    /// How many nodes had it.
    pub(crate) equal: usize,
    /// The next best node.
    pub(crate) runner_up: Option<String>,
    /// The score of each plugin for the node and for the next best one.
    pub(crate) scores: Vec<DecidingScore>,
    /// The rejected nodes by reason.
    #[serde(serialize_with = "as_list")]
    pub(crate) rejections: Arc<[RejectedNodes]>,
    /// Of the pod's condition, if it fitted nowhere.
    pub(crate) message: Option<String>,
    /// The node that is being freed for it.
    pub(crate) nominated: Option<String>,
    pub(crate) victims: Vec<String>,
}

impl View {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a request for the pending pods.
    pub(super) async fn is_asked(&self) {
        self.requested.notified().await;
    }

    /// The requests since the last call.
    pub(super) fn take_requests(&self) -> Vec<PendingRequest> {
        std::mem::take(&mut self.lock().requests)
    }

    /// Keeps a decision in place of the oldest one.
    pub(super) fn decided(&self, decision: Decision) {
        let mut state = self.lock();
        // A bound, because every attempt adds a decision.
        if state.decisions.len() == DECISIONS {
            state.decisions.pop_front();
        }
        state.decisions.push_back(decision);
    }

    /// The pending pods as JSON. With `pod=NAMESPACE/NAME` in the query, only that one with suggestions for it.
    pub(crate) async fn pending(&self, query: &str) -> String {
        let (reply, answer) = oneshot::channel();
        let pod = value_in(query, "pod").and_then(|pod| pod.split_once('/'));
        let pod = pod.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
        self.lock().requests.push(PendingRequest { pod, reply });
        self.requested.notify_one();
        // An engine that has ended drops the request.
        let pending = answer.await.unwrap_or_default();
        serde_json::to_string(&pending).unwrap_or_default()
    }

    /// The last decisions as JSON, the newest last. With `pod=NAMESPACE/NAME` in the query, only those about that pod; with
    /// `last=N`, only so many.
    pub(crate) fn decisions(&self, query: &str) -> String {
        let pod = value_in(query, "pod");
        let last = value_in(query, "last").and_then(|last| last.parse().ok());
        let state = self.lock();
        let wanted = |decision: &&Decision| pod.is_none_or(|pod| decision.pod == pod);
        let newest = state.decisions.iter().rev().filter(wanted);
        let mut decisions: Vec<&Decision> = newest.take(last.unwrap_or(DECISIONS)).collect();
        decisions.reverse();
        serde_json::to_string(&decisions).unwrap_or_default()
    }
}

/// The present moment by both clocks of the engine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    /// Wall-clock time.
    pub(super) now: Timestamp,
    /// Time of the queue.
    pub(super) monotonic: Timestamp,
}

impl Times {
    /// A time of the queue by the wall clock, because readers compare it with theirs.
    fn wall(self, since: Timestamp) -> Timestamp {
        let waited = self.monotonic.duration_since(since);
        self.now.checked_sub(waited).unwrap_or(since)
    }
}

/// Whether a pod is the one of this namespace and name, if only one is wanted.
fn is_wanted(metadata: &wire::Metadata, pod: Option<&(String, String)>) -> bool {
    pod.is_none_or(|(namespace, name)| {
        metadata.namespace_or_default() == namespace && metadata.name == *name
    })
}

impl Pending {
    /// The waiting pods and resizes of a scheduler, or only the pod of this namespace and name.
    pub(super) fn of(scheduler: &Scheduler, times: Times, pod: Option<&(String, String)>) -> Self {
        let queue = scheduler.queue();
        let resizes = scheduler.deferred_resizes();
        let resizes = resizes.filter(|resize| is_wanted(&resize.pod.metadata, pod));
        let resizes = resizes.map(|resize| PendingResize {
            pod: name(&resize.pod),
            node: resize.pod.spec.node_name.clone(),
            since: times.wall(resize.since),
            attempts: resize.attempts,
            message: resize.message.clone(),
        });
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
        let wanted = |metadata: &wire::Metadata| is_wanted(metadata, pod);
        let pods = all.filter_map(|(key, pool)| {
            let pod = queue.pod(&key).filter(|pod| wanted(&pod.metadata))?;
            let waits = queue.queued_pod(&key)?;
            Some(PendingPod {
                pod: name(pod),
                pool,
                since: times.wall(waits.since),
                attempts: waits.attempts,
                plugins: waits.rejectors.iter().map(PluginName::as_str).collect(),
                wakes: wakes(waits.rejectors),
                message: message(queue, pod, pool),
                nominated: queue.nominated_node(&key).map(|node| node.to_string()),
            })
        });
        Self {
            time: Some(times.now),
            count: queue.len(),
            pods: pods.take(LISTED).collect(),
            resizes: resizes.take(LISTED).collect(),
            help: None,
        }
    }
}

fn as_list<S: Serializer>(shared: &Arc<[RejectedNodes]>, serializer: S) -> Result<S::Ok, S::Error> {
    shared[..].serialize(serializer)
}

/// The value of a key in a query.
fn value_in<'a>(query: &'a str, key: &str) -> Option<&'a str> {
    let mut pairs = query.split('&').filter_map(|part| part.split_once('='));
    let (_, value) = pairs.find(|(name, _)| *name == key)?;
    Some(value)
}

/// The events after which a pod that these plugins rejected is tried again.
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

/// Why a gated pod is not tried, else the message of its condition. The condition of a gated pod is of an earlier attempt.
fn message(queue: &SchedulingQueue, pod: &wire::Pod, pool: &str) -> String {
    let gate = match pool {
        "gated" => queue.gate(pod),
        _ => String::new(),
    };
    if gate.is_empty() {
        last_message(pod)
    } else {
        gate
    }
}

/// The message of the pod's condition `PodScheduled=False`.
fn last_message(pod: &wire::Pod) -> String {
    let mut conditions = pod.status.conditions.iter();
    conditions
        .find(|condition| condition.fails("PodScheduled"))
        .map_or(String::new(), |condition| condition.message.clone())
}
