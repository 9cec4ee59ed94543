//! Actions that wait for the timeout of their policy (S6-053).

use super::request::Request;
use crate::bus::{Action, Event};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// An action that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delayed {
    /// The event that led to it.
    pub request: Request,
    /// The action.
    pub action: Action,
    /// When it is due.
    pub due: Timestamp,
}

/// The actions of one job that wait, one a pod; those that are about no pod share the empty name.
#[derive(Debug, Clone, Default)]
pub struct Delays(BTreeMap<String, Delayed>);

/// The target of an action.
#[derive(PartialEq, Eq)]
enum Level {
    Job,
    Task,
    Pod,
    Partition,
}

fn level(action: &Action) -> Level {
    match action {
        Action::RestartTask => Level::Task,
        Action::RestartPod => Level::Pod,
        Action::RestartPartition => Level::Partition,
        _ => Level::Job,
    }
}

impl Delays {
    /// Adds an action. One that waits for the same pod already is kept, another one is replaced; returns whether the new
    /// one waits now.
    pub fn add(&mut self, delayed: Delayed) -> bool {
        let pod = delayed.request.pod_name.clone();
        if self
            .0
            .get(&pod)
            .is_some_and(|known| known.action == delayed.action)
        {
            // The timeout of the first event counts. Otherwise repeated events would put it off for ever.
            return false;
        }
        self.0.insert(pod, delayed);
        true
    }

    /// Cancels the delayed actions that a request settles: one for a pending pod if that pod is no longer pending, one
    /// for a failed or evicted pod if that pod runs.
    pub fn settle(&mut self, request: &Request) {
        if !matches!(
            request.event,
            Event::PodRunning | Event::PodFailed | Event::PodEvicted
        ) {
            return;
        }
        let Some(waiting) = self.0.get(&request.pod_name) else {
            return;
        };
        let settled = match waiting.request.event {
            // Another pod of the same name says nothing about this one.
            Event::PodPending => waiting.request.pod_uid == request.pod_uid,
            Event::PodFailed | Event::PodEvicted => request.event == Event::PodRunning,
            _ => false,
        };
        if settled {
            self.0.remove(&request.pod_name);
        }
    }

    /// Takes back the actions of the same level, after this one was taken for the request: whatever is about the job, and
    /// about the same task, pod or partition.
    pub fn supersede(&mut self, action: &Action, request: &Request) {
        let taken = level(action);
        self.0.retain(|_, waiting| {
            let other = match taken {
                Level::Job => false,
                Level::Task => waiting.request.task_name != request.task_name,
                Level::Pod => waiting.request.pod_name != request.pod_name,
                Level::Partition => waiting.request.partition_id != request.partition_id,
            };
            // An action for a smaller target may still be needed afterwards.
            level(&waiting.action) != taken || other
        });
    }

    /// Takes out one that is due.
    pub fn due(&mut self, now: Timestamp) -> Option<Delayed> {
        let due = self.0.iter().filter(|(_, waiting)| waiting.due <= now);
        let first = due.min_by_key(|(_, waiting)| waiting.due);
        let pod = first.map(|(pod, _)| pod.clone())?;
        self.0.remove(&pod)
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.0.values().map(|waiting| waiting.due).min()
    }
}
