//! What others may see of a running scheduler: which pods wait and on what, and the last decisions with their evidence.

use evictd_pod::wire;
use evictd_scheduling::{Pool, SchedulingQueue};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// How many decisions are kept.
const DECISIONS: usize = 1000;
/// The most waiting pods that are listed; the count tells of all.
const LISTED: usize = 1000;

/// Shared with whoever asks. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct View(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    pending: Pending,
    decisions: VecDeque<Decision>,
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
    /// What the pod was told that found none.
    pub message: Option<String>,
    /// The node that is being freed for it.
    pub nominated: Option<String>,
    /// The pods that go for it.
    pub victims: Vec<String>,
}

impl View {
    fn change(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
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

    /// Looks at the queue.
    pub(super) fn look(&self, now: Timestamp, queue: &SchedulingQueue) {
        let pools = [
            (Pool::Active, "active"),
            (Pool::Backoff, "backoff"),
            (Pool::ErrorBackoff, "backoff"),
            (Pool::Unschedulable, "unschedulable"),
            (Pool::Gated, "gated"),
        ];
        let all = pools.into_iter().flat_map(|(pool, name)| {
            let keys = if queue.count(pool) == 0 {
                Vec::new()
            } else {
                queue.pods_in(pool)
            };
            keys.into_iter().map(move |key| (key, name))
        });
        let pods = all.take(LISTED).filter_map(|(key, pool)| {
            let (pod, waits) = (queue.pod(&key)?, queue.waiting(&key)?);
            Some(Waiting {
                pod: name(pod),
                pool,
                since: waits.since,
                attempts: waits.attempts,
                plugins: waits
                    .rejectors
                    .iter()
                    .map(|plugin| plugin.as_str())
                    .collect(),
                message: told(pod),
                nominated: queue.nominated_node(&key).map(|node| node.to_string()),
            })
        });
        let pending = Pending {
            time: Some(now),
            count: queue.len(),
            pods: pods.collect(),
        };
        self.change(|seen| seen.pending = pending);
    }

    /// Which pods wait, as JSON.
    pub fn pending(&self) -> String {
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_string(&seen.pending).unwrap_or_default()
    }

    /// The last decisions, as JSON; the newest last. With `pod=NAMESPACE/NAME` in the query only those about that pod.
    pub fn decisions(&self, query: &str) -> String {
        let pod = query.split('&').find_map(|part| part.strip_prefix("pod="));
        let seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = |decision: &&Decision| pod.is_none_or(|pod| decision.pod == pod);
        let decisions: Vec<&Decision> = seen.decisions.iter().filter(wanted).collect();
        serde_json::to_string(&decisions).unwrap_or_default()
    }
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
