//! Patches of pods' status, one at a time for each pod.

use super::calls::Calls;
use super::{Outcome, PodRef, lock};
use crate::run::attempts::{Attempts, Failure, FailureKind};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::{mpsc, oneshot};

/// A condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// `PodScheduled`.
    pub kind: &'static str,
    /// Whether its status is True.
    pub holds: bool,
    /// `Unschedulable`, `SchedulerError` (S5-069).
    pub reason: &'static str,
    /// The whole message.
    pub message: String,
    /// When its status changed last: now, unless it had this status before.
    pub since: Timestamp,
    /// The pod's `metadata.generation` that was looked at.
    pub observed_generation: Option<i64>,
}

/// What is written. Whoever writes leaves out what the pod has already.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StatusPatch {
    /// A condition to set, which pods that wait for the same can share.
    pub condition: Option<Arc<Condition>>,
    /// `status.nominatedNodeName`, which `Some(None)` clears.
    pub nominated_node: Option<Option<String>>,
}

impl StatusPatch {
    /// The newer one's fields count.
    fn then(self, newer: Self) -> Self {
        Self {
            condition: newer.condition.or(self.condition),
            nominated_node: newer.nominated_node.or(self.nominated_node),
        }
    }

    fn body(&self) -> Value {
        let mut status = json!({});
        if let Some(condition) = &self.condition {
            status["conditions"] = json!([condition.body()]);
        }
        if let Some(node) = &self.nominated_node {
            status["nominatedNodeName"] = json!(node);
        }
        status
    }
}

impl Condition {
    pub(super) fn body(&self) -> Value {
        let mut body = json!({
            "type": self.kind, "status": if self.holds { "True" } else { "False" },
            "reason": self.reason, "message": self.message, "lastProbeTime": null,
            "lastTransitionTime": format!("{:.0}", self.since),
        });
        if let Some(generation) = self.observed_generation {
            body["observedGeneration"] = generation.into();
        }
        body
    }
}

/// Told when a write has ended, however.
type Ended = oneshot::Sender<Result<(), Failure>>;

/// The next write of a pod. While one is on its way the patch is absent.
struct Next {
    pod: PodRef,
    patch: Option<StatusPatch>,
    ended: Vec<Ended>,
}

/// What is to be written. A hundred thousand pods may wait for it, so that each takes little room, and no task.
#[derive(Default)]
struct Wanted {
    /// By UID; a pod is in it from when a write is wanted until it has ended.
    next: HashMap<Arc<str>, Box<Next>>,
    /// The pods whose turn comes, in this order.
    turns: VecDeque<Arc<str>>,
    workers: usize,
    stopped: bool,
}

#[derive(Clone)]
pub(super) struct Statuses {
    calls: Calls,
    at_a_time: usize,
    wanted: Arc<Mutex<Wanted>>,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

/// A write whose turn has come.
struct Turn {
    uid: Arc<str>,
    pod: PodRef,
    patch: StatusPatch,
    ended: Vec<Ended>,
    stopped: bool,
}

impl Wanted {
    /// Whether this is one more write, not part of one that waits or a pod's next.
    fn add(&mut self, pod: PodRef, patch: StatusPatch, ended: Option<Ended>) -> bool {
        if let Some(next) = self.next.get_mut(&*pod.uid) {
            next.patch = Some(next.patch.take().unwrap_or_default().then(patch));
            next.ended.extend(ended);
            return false;
        }
        let uid = Arc::clone(&pod.uid);
        let next = Next {
            pod,
            patch: Some(patch),
            ended: ended.into_iter().collect(),
        };
        self.next.insert(Arc::clone(&uid), Box::new(next));
        self.turns.push_back(uid);
        true
    }

    /// The next write; without any the worker that asks has ended.
    fn take(&mut self) -> Option<Turn> {
        while let Some(uid) = self.turns.pop_front() {
            if let Some(next) = self.next.get_mut(&uid)
                && let Some(patch) = next.patch.take()
            {
                return Some(Turn {
                    pod: next.pod.clone(),
                    patch,
                    ended: std::mem::take(&mut next.ended),
                    stopped: self.stopped,
                    uid,
                });
            }
        }
        self.workers -= 1;
        // What a crowd has left behind is not kept for the next one.
        self.next.shrink_to(1024);
        self.turns.shrink_to(1024);
        None
    }

    /// The pod waits for its next turn if more is wanted of it, else it is forgotten.
    fn over(&mut self, uid: Arc<str>) {
        if self.next.get(&uid).is_some_and(|next| next.patch.is_some()) {
            self.turns.push_back(uid);
        } else {
            self.next.remove(&uid);
        }
    }
}

impl Statuses {
    pub(super) fn new(
        calls: Calls,
        at_a_time: usize,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) -> Self {
        Self {
            calls,
            at_a_time,
            wanted: Arc::default(),
            outcomes,
        }
    }

    /// What is not on its way is not written any more.
    pub(super) fn stop(&self) {
        lock(&self.wanted).stopped = true;
    }

    pub(super) fn write(&self, pod: PodRef, patch: StatusPatch, ended: Option<Ended>) {
        let mut wanted = lock(&self.wanted);
        let starts = wanted.add(pod, patch, ended) && wanted.workers < self.at_a_time;
        wanted.workers += usize::from(starts);
        drop(wanted);
        if starts {
            tokio::spawn(self.clone().work());
        }
    }

    /// Writes one status after the other until nothing more is wanted.
    async fn work(self) {
        loop {
            let turn = lock(&self.wanted).take();
            let Some(turn) = turn else {
                return;
            };
            let result = if turn.stopped {
                Err(Failure::stopped())
            } else {
                patch_until_answered(&self.calls, &turn.pod, &turn.patch.body()).await
            };
            for ended in turn.ended {
                // Who asked may wait no more.
                let _ = ended.send(result.clone());
            }
            lock(&self.wanted).over(turn.uid);
            if let Err(failure) = result {
                let pod = turn.pod;
                let _ = self
                    .outcomes
                    .send(Outcome::StatusNotWritten { pod, failure });
            }
        }
    }
}

/// A second time changes nothing, so an attempt without an answer is simply repeated. So is one that met another write:
/// a patch names no version.
pub(super) async fn patch_until_answered(
    calls: &Calls,
    pod: &PodRef,
    status: &Value,
) -> Result<(), Failure> {
    let mut attempts = Attempts::default();
    loop {
        let Err(error) = calls.patch_status(pod, status).await else {
            return Ok(());
        };
        attempts.after(&error).await?;
    }
}

/// Whether the pod is gone, which is as good as done for a victim.
pub(super) fn or_gone(result: Result<(), Failure>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(false),
        Err(failure) if failure.kind == FailureKind::Gone => Ok(true),
        Err(failure) => Err(failure),
    }
}
