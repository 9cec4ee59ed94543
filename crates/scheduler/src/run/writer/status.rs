//! Patches of pods' status, one at a time for each pod.

use super::calls::Calls;
use super::{Outcome, PodRef, lock};
use crate::run::attempts::{Attempts, Failure, FailureKind};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use tokio::sync::{Semaphore, mpsc, oneshot};

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
    /// A condition to set.
    pub condition: Option<Condition>,
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

/// The next write of a pod. While one is on its way the place is empty.
#[derive(Default)]
struct Next {
    patch: Option<StatusPatch>,
    ended: Vec<Ended>,
}

#[derive(Clone)]
pub(super) struct Statuses {
    calls: Calls,
    turns: Arc<Semaphore>,
    /// By UID; a pod is in it while a task writes its status.
    next: Arc<Mutex<HashMap<String, Next>>>,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

impl Statuses {
    pub(super) fn new(
        calls: Calls,
        at_a_time: usize,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) -> Self {
        Self {
            calls,
            turns: Arc::new(Semaphore::new(at_a_time)),
            next: Arc::default(),
            outcomes,
        }
    }

    pub(super) fn stop(&self) {
        self.turns.close();
    }

    pub(super) fn write(&self, pod: PodRef, patch: StatusPatch, ended: Option<Ended>) {
        let mut all = lock(&self.next);
        let runs = all.contains_key(&pod.uid);
        let next = all.entry(pod.uid.clone()).or_default();
        next.patch = Some(next.patch.take().unwrap_or_default().then(patch));
        next.ended.extend(ended);
        drop(all);
        if !runs {
            tokio::spawn(self.clone().run(pod));
        }
    }

    /// Writes until nothing more is wanted of this pod.
    async fn run(self, pod: PodRef) {
        loop {
            let turn = self.turns.acquire().await;
            let Some((patch, ended)) = self.take(&pod) else {
                return;
            };
            let result = match turn {
                Ok(_turn) => patch_until_answered(&self.calls, &pod, &patch.body()).await,
                Err(_) => Err(Failure::stopped()),
            };
            for ended in ended {
                // Who asked may wait no more.
                let _ = ended.send(result.clone());
            }
            if let Err(failure) = result {
                let pod = pod.clone();
                let _ = self
                    .outcomes
                    .send(Outcome::StatusNotWritten { pod, failure });
            }
        }
    }

    /// What to write next; without any the pod is forgotten.
    fn take(&self, pod: &PodRef) -> Option<(StatusPatch, Vec<Ended>)> {
        let mut all = lock(&self.next);
        let next = all.get_mut(&pod.uid)?;
        let Some(patch) = next.patch.take() else {
            all.remove(&pod.uid);
            return None;
        };
        Some((patch, std::mem::take(&mut next.ended)))
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
