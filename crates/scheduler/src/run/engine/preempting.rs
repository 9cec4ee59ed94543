//! Pods whose victims are being deleted. Such a pod is not tried until its last victim is seen to terminate (S5-112): it would
//! choose the same victims again.

use super::{Engine, scheduler_of};
use crate::run::attempts::Failure;
use crate::run::pod_ref::PodRef;
use crate::run::writer::Preemption;
use evictd_pod::wire;
use evictd_preemption::Action;
use evictd_scheduling::{Change, Event, Rejected};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

#[derive(Default)]
pub(super) struct Preempting {
    /// By the UID of the preemptor.
    calls: HashMap<Arc<str>, Call>,
    /// The preemptors that wait for a last victim, by the UID of the victim.
    awaited: HashMap<Arc<str>, Vec<Arc<str>>>,
}

struct Call {
    /// The key of the preemptor in the queue.
    key: Arc<str>,
    /// The nominated node.
    node: String,
    since: Instant,
}

impl Engine {
    /// Deletes the victims. Until then the pod is not tried (S5-112).
    pub(super) fn preempt(
        &mut self,
        now: Timestamp,
        (key, pod): (&Arc<str>, &wire::Pod),
        rejected: &Rejected,
    ) {
        if rejected.preempts {
            self.metrics.preemption_attempts.add([], 1);
        }
        let Some(node) = &rejected.nominated else {
            return;
        };
        let reference = |name: &str, uid: &str| {
            let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
            PodRef {
                namespace: namespace.into(),
                name: name.to_owned(),
                uid: uid.into(),
            }
        };
        let mut victims: Vec<PodRef> = Vec::new();
        for action in &rejected.actions {
            match action {
                // A victim that waits for permits returns to the queue (S4-022).
                Action::RejectWaiting { uid, .. }
                    if self.scheduler.reject_waiting(self.steady.now(), uid) => {}
                Action::Delete { pod, uid } | Action::RejectWaiting { pod, uid } => {
                    victims.push(reference(pod, uid));
                }
                _ => {}
            }
        }
        let names: HashSet<&String> = rejected.nominations_cleared.iter().collect();
        let nominated = self.scheduler.cluster().nominated().iter();
        let cluster = self.scheduler.cluster();
        let cleared = nominated.filter_map(|pod| {
            let name = cluster.full_name(pod);
            names.contains(&name).then(|| reference(&name, pod.uid()))
        });
        let preemption = Preemption {
            time: now,
            preemptor: PodRef::of(&pod.metadata),
            scheduler: scheduler_of(pod).to_owned(),
            node: node.clone(),
            cleared: cleared.collect(),
            victims,
        };
        // A plan has as many victims as a node has pods.
        let victims_now = u32::try_from(preemption.victims.len()).unwrap_or(u32::MAX);
        self.metrics
            .preemption_victims
            .observe([], f64::from(victims_now));
        info!(
            "{} preempts {} pods on {node}",
            preemption.preemptor,
            preemption.victims.len()
        );
        if preemption.victims.is_empty() {
            return;
        }
        let node = node.clone();
        match self.writer.preempt(preemption) {
            Ok(()) => {
                let call = Call {
                    key: Arc::clone(key),
                    node,
                    since: Instant::now(),
                };
                let uid = Arc::clone(&pod.metadata.uid);
                self.preempting.calls.insert(uid, call);
                self.scheduler.set_preempting(key, true);
            }
            Err(busy) => debug!("{}: {busy}", pod.metadata.name),
        }
    }

    /// All victims but this one terminate. The watch event of the last one wakes the pod. A victim that terminates already
    /// sends no further event, so the pod is activated at once.
    pub(super) fn last_victim(&mut self, preemptor: &PodRef, victim: &PodRef) {
        let Some(call) = self.preempting.calls.get(&preemptor.uid) else {
            return;
        };
        let key = Arc::clone(&call.key);
        let cluster = self.scheduler.cluster();
        let pods = cluster.find_node(&call.node);
        let mut pods = pods.into_iter().flat_map(|id| &cluster.node(id).pods);
        if pods.any(|pod| pod.uid() == &*victim.uid && !pod.terminating) {
            let awaited = &mut self.preempting.awaited;
            awaited
                .entry(Arc::clone(&victim.uid))
                .or_default()
                .push(key);
        } else {
            self.scheduler.set_preempting(&key, false);
            self.scheduler.activate([&*key]);
        }
    }

    /// All requests of a preemption are answered.
    pub(super) fn preempted(&mut self, preemptor: &PodRef, failure: Option<Failure>) {
        let Some(Call { key, since, .. }) = self.preempting.calls.remove(&preemptor.uid) else {
            return;
        };
        let result = if failure.is_some() {
            "error"
        } else {
            "success"
        };
        let (count, duration) = (
            &self.metrics.preemption_goroutines_execution,
            &self.metrics.preemption_goroutines_duration,
        );
        count.add([result], 1);
        duration.observe([result], since.elapsed().as_secs_f64());
        if let Some(failure) = failure {
            warn!("preemption for {preemptor}: {}", failure.message);
            self.preempting.awaited.retain(|_, pods| {
                pods.retain(|pod| *pod != key);
                !pods.is_empty()
            });
            self.scheduler.set_preempting(&key, false);
            self.scheduler.activate([&*key]);
        }
    }

    /// Pods that wait for a terminating or deleted victim may be tried. This comes before the event is applied, so that it
    /// can wake them.
    pub(super) fn release_preemptors(&mut self, event: &Event) {
        let Event::Change(Change::Pod(pods)) = event else {
            return;
        };
        let stays = |pod: &Arc<wire::Pod>| pod.metadata.deletion_timestamp.is_none();
        let Some(old) = pods
            .old
            .as_ref()
            .filter(|_| !pods.new.as_ref().is_some_and(stays))
        else {
            return;
        };
        let waiting = self.preempting.awaited.remove(&old.metadata.uid);
        for key in waiting.into_iter().flatten() {
            self.scheduler.set_preempting(&key, false);
        }
    }
}
