//! Patches of the status of pods, one at a time for each pod.

use super::calls::Calls;
use super::{Outcome, PodRef, lock};
use crate::run::api_retry::{ApiRetry, Failure, FailureKind};
use evictd_pod::wire::{self, Condition};
use serde_json::{Value, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// The changed fields of a status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct StatusPatch {
    /// Pods that wait for the same reason share it.
    pub(crate) condition: Option<Arc<Condition>>,
    /// `status.nominatedNodeName`. `Some(None)` clears it.
    #[allow(
        clippy::option_option,
        reason = "absent, cleared and set are three patches"
    )]
    pub(crate) nominated_node: Option<Option<String>>,
}

impl StatusPatch {
    /// The fields of the newer patch win.
    fn merge(self, newer: Self) -> Self {
        Self {
            condition: newer.condition.or(self.condition),
            nominated_node: newer.nominated_node.or(self.nominated_node),
        }
    }

    fn body(&self) -> Value {
        let mut status = json!({});
        if let Some(condition) = &self.condition {
            status["conditions"] = json!([of_pod(condition)]);
        }
        if let Some(node) = &self.nominated_node {
            status["nominatedNodeName"] = json!(node);
        }
        status
    }
}

/// A condition of a pod as it is written. Pods have a field that Kubernetes always writes as `null`.
pub(super) fn of_pod(condition: &Condition) -> Value {
    let mut body = json!(condition);
    body["lastProbeTime"] = Value::Null;
    body
}

/// Receives the result of a write.
type Ended = oneshot::Sender<Result<(), Failure>>;

/// The pod of a status. A pod of the queue is shared with it, which takes less memory than its name.
#[derive(Debug)]
pub(crate) enum Subject {
    Known(Arc<wire::Pod>),
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

/// A write. Nearly all have only the condition `PodScheduled`, which the first variant stores without an allocation.
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

    /// The rest of it without its condition, if anything.
    fn without_condition(self) -> Option<Self> {
        let (patch, ended) = self.into_parts();
        let patch = StatusPatch {
            condition: None,
            ..patch
        };
        let is_empty = patch.nominated_node.is_none() && ended.is_empty();
        (!is_empty).then(|| Self::Patch(Box::new((patch, ended))))
    }

    fn merge(self, newer: Self) -> Self {
        if let (Self::Condition(_), Self::Condition(_)) = (&self, &newer) {
            return newer;
        }
        let ((patch, mut ended), (newer, more)) = (self.into_parts(), newer.into_parts());
        ended.extend(more);
        Self::Patch(Box::new((patch.merge(newer), ended)))
    }
}

/// The next write to a pod. `None` while its last write is under way.
struct Next {
    pod: Subject,
    write: Option<Write>,
    is_under_way: bool,
}

/// The pending writes. A hundred thousand pods may have one, so that each takes little memory and no task.
#[derive(Default)]
struct Pending {
    /// By UID. A pod is here until its last write has ended.
    next: HashMap<Arc<str>, Next>,
    /// The pods with a write that is not under way, in the order of their writes.
    order: VecDeque<Arc<str>>,
    /// Bindings that wait for the write of their pod that is under way, by UID.
    bindings: HashMap<Arc<str>, Vec<oneshot::Sender<()>>>,
    workers: usize,
    stopped: bool,
}

#[derive(Clone)]
pub(super) struct Statuses {
    calls: Calls,
    max_workers: usize,
    pending: Arc<Mutex<Pending>>,
    outcomes: mpsc::UnboundedSender<Outcome>,
}

/// A write that a worker carries out.
struct Job {
    uid: Arc<str>,
    pod: PodRef,
    write: Write,
    stopped: bool,
}

impl Pending {
    /// Returns whether a worker can begin with the write now: not if one of the same pod is pending or under way.
    fn add(&mut self, pod: Subject, write: Write) -> bool {
        if let Some(next) = self.next.get_mut(pod.uid()) {
            next.write = Some(match next.write.take() {
                Some(older) => older.merge(write),
                None => write,
            });
            return false;
        }
        let uid = Arc::clone(pod.uid());
        let write = Some(write);
        let is_under_way = false;
        let next = Next {
            pod,
            write,
            is_under_way,
        };
        self.next.insert(Arc::clone(&uid), next);
        self.order.push_back(uid);
        true
    }

    /// The next write. With `None` the worker that asks must end.
    fn take(&mut self) -> Option<Job> {
        while let Some(uid) = self.order.pop_front() {
            if let Some(next) = self.next.get_mut(&uid)
                && !next.is_under_way
                && let Some(write) = next.write.take()
            {
                next.is_under_way = true;
                return Some(Job {
                    pod: next.pod.reference(),
                    write,
                    stopped: self.stopped,
                    uid,
                });
            }
        }
        self.workers -= 1;
        // The memory of a burst is freed.
        self.next.shrink_to(1024);
        self.order.shrink_to(1024);
        None
    }

    /// Handles the end of a write. The pod is queued again if it has another one.
    fn ended(&mut self, uid: Arc<str>) {
        for binding in self.bindings.remove(&uid).into_iter().flatten() {
            // It may have given up waiting.
            let _ = binding.send(());
        }
        match self.next.get_mut(&uid) {
            Some(next) if next.write.is_some() => {
                next.is_under_way = false;
                self.order.push_back(uid);
            }
            _ => {
                self.next.remove(&uid);
            }
        }
    }

    /// Drops the condition of a pod's pending write. Returns the end of the write that is under way, if there is one.
    fn drop_condition(&mut self, uid: &Arc<str>) -> Option<oneshot::Receiver<()>> {
        let next = self.next.get_mut(uid)?;
        next.write = next.write.take().and_then(Write::without_condition);
        if next.is_under_way {
            let (ended, end) = oneshot::channel();
            self.bindings
                .entry(Arc::clone(uid))
                .or_default()
                .push(ended);
            return Some(end);
        }
        if next.write.is_none() {
            self.next.remove(uid);
        }
        None
    }
}

impl Statuses {
    pub(super) fn new(
        calls: Calls,
        max_workers: usize,
        outcomes: mpsc::UnboundedSender<Outcome>,
    ) -> Self {
        Self {
            calls,
            max_workers,
            pending: Arc::default(),
            outcomes,
        }
    }

    #[cfg(test)]
    pub(super) fn under_way(&self) -> usize {
        let pending = lock(&self.pending);
        pending
            .next
            .values()
            .filter(|next| next.is_under_way)
            .count()
    }

    /// Sends no further write.
    pub(super) fn stop(&self) {
        lock(&self.pending).stopped = true;
    }

    pub(super) fn write(&self, pod: Subject, patch: StatusPatch, ended: Option<Ended>) {
        let mut pending = lock(&self.pending);
        let starts =
            pending.add(pod, Write::new(patch, ended)) && pending.workers < self.max_workers;
        pending.workers += usize::from(starts);
        drop(pending);
        if starts {
            tokio::spawn(self.clone().work());
        }
    }

    /// Before a pod is bound: drops its pending condition, and waits for a write that is under way, but not longer than `within`.
    /// Else a late `PodScheduled=False` could replace the condition of the binding (S7-229).
    pub(super) async fn end_condition(&self, pod: &Arc<str>, within: Duration) {
        let under_way = lock(&self.pending).drop_condition(pod);
        if let Some(end) = under_way {
            let _ = tokio::time::timeout(within, end).await;
        }
    }

    /// Carries out one write after the other until none is pending.
    async fn work(self) {
        loop {
            let job = lock(&self.pending).take();
            let Some(Job {
                uid,
                pod,
                write,
                stopped,
            }) = job
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
                // The receiver may have been dropped.
                let _ = ended.send(result.clone());
            }
            lock(&self.pending).ended(uid);
            if let Err(failure) = result {
                let _ = self
                    .outcomes
                    .send(Outcome::StatusNotWritten { pod, failure });
            }
        }
    }
}

/// Patches a status until the server has answered. The patch names no version and may be repeated, so that it is also retried
/// after an attempt without an answer.
pub(super) async fn patch_until_answered(
    calls: &Calls,
    pod: &PodRef,
    status: &Value,
) -> Result<(), Failure> {
    let mut retry = ApiRetry::default();
    loop {
        let Err(error) = calls.patch_status(pod, status).await else {
            return Ok(());
        };
        retry.after(&error).await?;
    }
}

/// Returns whether the pod was already deleted, which is no failure for a victim.
pub(super) fn or_gone(result: Result<(), Failure>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(false),
        Err(failure) if failure.kind == FailureKind::Gone => Ok(true),
        Err(failure) => Err(failure),
    }
}
