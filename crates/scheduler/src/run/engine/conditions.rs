//! Conditions and nominations in the status of pods that are not bound.

use super::{Engine, scheduler_of};
use crate::run::pod_ref::PodRef;
use crate::run::writer::{Condition, StatusPatch};
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event, Nomination};
use jiff::Timestamp;
use std::sync::Arc;

impl Engine {
    /// Writes the node of a pod as its nominated node, because its binding takes a while (S5-063).
    pub(super) fn expect(&self, pod: &PodRef, node: &str) {
        let patch = StatusPatch {
            nominated_node: Some(Some(node.to_owned())),
            ..StatusPatch::default()
        };
        self.writer.status(pod.clone(), patch);
    }

    /// Reports once that a pod is not tried because it cannot be read. Its status is unknown, and each write is a change that
    /// would cause the next write.
    pub(super) fn report_unreadable(&mut self, event: &Event) {
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
        let is_reported = old.as_ref().is_some_and(same);
        let waits = self.scheduler.queue().pod(&pod.metadata.key()).is_some();
        if is_reported || !waits || *self.role.borrow() != Role::Leader {
            return;
        }
        let message = format!("the scheduler cannot read this pod and does not try it: {problem}");
        let now = (self.now)();
        self.report_waiting(now, pod, "SchedulerError", &message, Nomination::OfStatus);
    }

    /// Reports why a pod waits, in its condition and in an event (S5-069). A condition that the status has already is not
    /// written again (S5-071).
    pub(super) fn report_waiting(
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
        let old = conditions.find(|condition| condition.kind == "PodScheduled");
        let is_written = old.is_some_and(|old| {
            old.status == "False" && old.reason == reason && old.message == message
        });
        let had = &pod.status.nominated_node_name;
        let nominated_node = match nomination {
            Nomination::Node(node) if *node != **had => Some(Some(node.to_string())),
            Nomination::Cleared if !had.is_empty() => Some(None),
            Nomination::Node(_) | Nomination::Cleared | Nomination::OfStatus => None,
        };
        if is_written && nominated_node.is_none() {
            return;
        }
        let since = old
            .filter(|old| old.status == "False")
            .and_then(|old| old.last_transition_time);
        let since = since.unwrap_or(now);
        let condition = (!is_written).then(|| self.unschedulable(reason, message, since));
        let patch = StatusPatch {
            condition,
            nominated_node,
        };
        self.writer.status(pod, patch);
    }

    /// The condition of a waiting pod. Equal conditions of consecutive pods share one allocation.
    pub(super) fn unschedulable(
        &mut self,
        reason: &'static str,
        message: &str,
        since: Timestamp,
    ) -> Arc<Condition> {
        let last = self.last_condition.as_ref().filter(|last| {
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
        self.last_condition = Some(Arc::clone(&condition));
        condition
    }
}
