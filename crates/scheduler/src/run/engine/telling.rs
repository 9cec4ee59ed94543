//! What is written into the status of pods that are not bound yet.

use super::{Engine, scheduler_of};
use crate::run::pod_ref::PodRef;
use crate::run::writer::{Condition, StatusPatch};
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event, Nomination, pod_key};
use jiff::Timestamp;
use std::sync::Arc;

impl Engine {
    /// Writes which node a pod is to get, because it takes a while until it is bound (S5-063).
    pub(super) fn expect(&self, pod: &PodRef, node: &str) {
        let patch = StatusPatch {
            nominated_node: Some(Some(node.to_owned())),
            ..StatusPatch::default()
        };
        self.writer.status(pod.clone(), patch);
    }

    /// Tells users that a pod is not tried because it cannot be read. Once: what its status says is not known, and each
    /// write is a change that would be told again.
    pub(super) fn tell_unreadable(&mut self, event: &Event) {
        let Event::Change(Change::Pod(Delta {
            old,
            new: Some(pod),
        })) = event
        else {
            return;
        };
        let Some(problem) = &pod.spec.unreadable else {
            return;
        };
        let same = |old: &Arc<wire::Pod>| {
            old.metadata.uid == pod.metadata.uid && old.spec.unreadable.is_some()
        };
        let is_told = old.as_ref().is_some_and(same);
        let waits = self
            .scheduler
            .queue()
            .pod(&pod_key(&pod.metadata))
            .is_some();
        if is_told || !waits || *self.role.borrow() != Role::Leader {
            return;
        }
        let message = format!("the scheduler cannot read this pod and does not try it: {problem}");
        let now = (self.now)();
        self.tell(now, pod, "SchedulerError", &message, Nomination::OfStatus);
    }

    /// Tells users why a pod waits, in its condition and in an event (S5-069); what its status says already is not
    /// written again (S5-071).
    pub(super) fn tell(
        &mut self,
        now: Timestamp,
        pod: &Arc<wire::Pod>,
        reason: &'static str,
        message: &str,
        nomination: Nomination,
    ) {
        let reference = PodRef::of(&pod.metadata);
        self.events
            .failed_scheduling(scheduler_of(pod), &reference, message);
        let mut conditions = pod.status.conditions.iter();
        let old = conditions.find(|own| own.kind == "PodScheduled");
        let told = old.is_some_and(|own| {
            own.status == "False" && own.reason == reason && own.message == message
        });
        let had = &pod.status.nominated_node_name;
        let nominated_node = match nomination {
            Nomination::Node(node) if *node != **had => Some(Some(node.to_string())),
            Nomination::Cleared if !had.is_empty() => Some(None),
            Nomination::Node(_) | Nomination::Cleared | Nomination::OfStatus => None,
        };
        if told && nominated_node.is_none() {
            return;
        }
        let since = old
            .filter(|own| own.status == "False")
            .and_then(|own| own.last_transition_time);
        let since = since.unwrap_or(now);
        let condition = (!told).then(|| self.unschedulable(reason, message, since));
        let patch = StatusPatch {
            condition,
            nominated_node,
        };
        self.writer.status(pod, patch);
    }

    /// The condition of a pod that waits; the same one as for the pod before if it says the same.
    pub(super) fn unschedulable(
        &mut self,
        reason: &'static str,
        message: &str,
        since: Timestamp,
    ) -> Arc<Condition> {
        let last = self.told.as_ref().filter(|last| {
            last.reason == reason
                && last.message == message
                && last.since.as_second() == since.as_second()
        });
        if let Some(last) = last {
            return Arc::clone(last);
        }
        let condition = Arc::new(Condition {
            kind: "PodScheduled",
            holds: false,
            reason,
            message: message.to_owned(),
            since,
            observed_generation: None,
        });
        self.told = Some(Arc::clone(&condition));
        condition
    }
}
