//! Patches of pods' status, one at a time for each pod.

use super::calls::Calls;
use super::{Outcome, PodRef, lock};
use crate::run::attempts::{Attempts, Failure, FailureKind};
use evictd_pod::wire;
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

/// Whose status is written. A pod that is known whole is not copied.
#[derive(Debug)]
pub enum Subject {
    /// A pod as it was last seen.
    Known(Arc<wire::Pod>),
    /// Any other.
    Named(Box<PodRef>),
}

impl Subject {
    fn uid(&self) -> &Arc<str> {
        match self {
            Self::Known(pod) => &pod.metadata.uid,
            Self::Named(pod) => &pod.uid,
        }
    }

    fn reference(&self) -> PodRef {
        match self {
            Self::Known(pod) => PodRef::of(&pod.metadata),
            Self::Named(pod) => PodRef::clone(pod),
        }
    }
}

impl From<&Arc<wire::Pod>> for Subject {
    fn from(pod: &Arc<wire::Pod>) -> Self {
        Self::Known(Arc::clone(pod))
    }
}

impl From<PodRef> for Subject {
    fn from(pod: PodRef) -> Self {
        Self::Named(pod.into())
    }
}

/// A write. Nearly all say only why the pod waits.
enum Write {
    Condition(Arc<Condition>),
    Patch(Box<(StatusPatch, Vec<Ended>)>),
}

impl Write {
    fn new(patch: StatusPatch, ended: Option<Ended>) -> Self {
        match (patch, ended) {
            (
                StatusPatch {
                    condition: Some(condition),
                    nominated_node: None,
                },
                None,
            ) => Self::Condition(condition),
            (patch, ended) => Self::Patch(Box::new((patch, ended.into_iter().collect()))),
        }
    }

    fn into_parts(self) -> (StatusPatch, Vec<Ended>) {
        match self {
            Self::Condition(condition) => {
                let patch = StatusPatch {
                    condition: Some(condition),
                    nominated_node: None,
                };
                (patch, Vec::new())
            }
            Self::Patch(parts) => *parts,
        }
    }

    /// One write instead of both.
    fn then(self, newer: Self) -> Self {
        if let (Self::Condition(_), Self::Condition(_)) = (&self, &newer) {
            return newer;
        }
        let ((patch, mut ended), (newer, more)) = (self.into_parts(), newer.into_parts());
        ended.extend(more);
        Self::Patch(Box::new((patch.then(newer), ended)))
    }
}

/// The next write of a pod; absent while one is on its way and nothing more is wanted.
struct Next {
    pod: Subject,
    write: Option<Write>,
}

/// What is to be written. A hundred thousand pods may wait for it, so that each takes little room, in the
/// table itself, and no task.
#[derive(Default)]
struct Wanted {
    /// By UID; a pod is in it from when a write is wanted until it has ended.
    next: HashMap<Arc<str>, Next>,
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
    write: Write,
    stopped: bool,
}

impl Wanted {
    /// Whether this is one more write, not part of one that waits or a pod's next.
    fn add(&mut self, pod: Subject, write: Write) -> bool {
        if let Some(next) = self.next.get_mut(pod.uid()) {
            next.write = Some(match next.write.take() {
                Some(older) => older.then(write),
                None => write,
            });
            return false;
        }
        let uid = Arc::clone(pod.uid());
        let write = Some(write);
        self.next.insert(Arc::clone(&uid), Next { pod, write });
        self.turns.push_back(uid);
        true
    }

    /// The next write; without any the worker that asks has ended.
    fn take(&mut self) -> Option<Turn> {
        while let Some(uid) = self.turns.pop_front() {
            if let Some(next) = self.next.get_mut(&uid)
                && let Some(write) = next.write.take()
            {
                return Some(Turn {
                    pod: next.pod.reference(),
                    write,
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
        if self.next.get(&uid).is_some_and(|next| next.write.is_some()) {
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

    pub(super) fn write(&self, pod: Subject, patch: StatusPatch, ended: Option<Ended>) {
        let mut wanted = lock(&self.wanted);
        let starts = wanted.add(pod, Write::new(patch, ended)) && wanted.workers < self.at_a_time;
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
            let Some(Turn {
                uid,
                pod,
                write,
                stopped,
            }) = turn
            else {
                return;
            };
            let (patch, ended) = write.into_parts();
            let result = if stopped {
                Err(Failure::stopped())
            } else {
                patch_until_answered(&self.calls, &pod, &patch.body()).await
            };
            for ended in ended {
                // Who asked may wait no more.
                let _ = ended.send(result.clone());
            }
            lock(&self.wanted).over(uid);
            if let Err(failure) = result {
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
