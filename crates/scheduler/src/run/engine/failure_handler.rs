//! Conditions, nominations and events of pods that are not bound, as the failure handler of kube-scheduler writes them.

use super::scheduler_of;
use crate::run::events::Events;
use crate::run::pod_ref::PodRef;
use crate::run::writer::{StatusPatch, Writer};
use evictd_pod::wire::{self, Condition};
use evictd_scheduling::{Change, Delta, Event, Nomination, SchedulingQueue};
use jiff::Timestamp;
use std::sync::Arc;

pub(super) struct FailureHandler {
    writer: Writer,
    events: Events,
    /// The last condition that was written. The next pod often gets the same one.
    last_condition: Option<Arc<Condition>>,
}

impl FailureHandler {
    pub(super) const fn new(writer: Writer, events: Events) -> Self {
        Self {
            writer,
            events,
            last_condition: None,
        }
    }

    /// Writes the node of a pod as its nominated node, because its binding takes a while (S5-063).
    pub(super) fn nominate(&self, pod: &PodRef, node: &str) {
        let patch = StatusPatch {
            nominated_node: Some(Some(node.to_owned())),
            ..StatusPatch::default()
        };
        self.writer.status(pod.clone(), patch);
    }

    /// Reports once that a pod is not tried because it cannot be read.
    pub(super) fn report_unreadable(
        &mut self,
        now: Timestamp,
        event: &Event,
        queue: &SchedulingQueue,
    ) {
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
        // The status of such a pod is unknown, so that it does not show whether this was reported. Each write is also a
        // change of the pod, which would lead to the next write.
        let is_reported = old.as_ref().is_some_and(|old| {
            old.metadata.uid == pod.metadata.uid && old.spec.unreadable.is_some()
        });
        if is_reported || queue.pod(&pod.metadata.key()).is_none() {
            return;
        }
        let message = format!("the scheduler cannot read this pod and does not try it: {problem}");
        self.handle(now, pod, "SchedulerError", &message, Nomination::OfStatus);
    }

    /// Reports why a pod waits, in its condition and in an event (S5-069). A condition that the status has already is not
    /// written again (S5-071).
    pub(super) fn handle(
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
            old.fails("PodScheduled")
                && old.reason == reason
                && old.message == message
                && old.observed_generation == pod.metadata.generation
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
            .filter(|old| old.fails("PodScheduled"))
            .and_then(|old| old.last_transition_time)
            .unwrap_or(now);
        let condition =
            (!is_written).then(|| self.pod_scheduled(&pod.metadata, reason, message, since));
        let patch = StatusPatch {
            condition,
            nominated_node,
        };
        self.writer.status(pod, patch);
    }

    /// `PodScheduled=False`. Equal conditions of consecutive pods share one allocation.
    pub(super) fn pod_scheduled(
        &mut self,
        pod: &wire::Metadata,
        reason: &'static str,
        message: &str,
        since: Timestamp,
    ) -> Arc<Condition> {
        let last = self.last_condition.as_ref().filter(|last| {
            last.reason == reason
                && last.message == message
                && last.observed_generation == pod.generation
                // The API has whole seconds.
                && last.last_transition_time.map(Timestamp::as_second) == Some(since.as_second())
        });
        if let Some(last) = last {
            return Arc::clone(last);
        }
        let condition = Condition::new("PodScheduled", false, reason, message.to_owned(), since);
        let condition = Arc::new(condition.of_generation(pod.generation));
        self.last_condition = Some(Arc::clone(&condition));
        condition
    }
}
