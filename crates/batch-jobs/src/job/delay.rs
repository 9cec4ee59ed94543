//! Actions that wait for the timeout of their policy (S6-053).

use super::request::Request;
use evictd_batch_objects::bus::{Action, Event};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

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
pub struct Delays {
    by_pod: BTreeMap<String, Delayed>,
    /// When each is due, and its pod. An action may wait for each of 20 000 pods.
    by_time: BTreeSet<(Timestamp, String)>,
}

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
            .by_pod
            .get(&pod)
            .is_some_and(|known| known.action == delayed.action)
        {
            // The timeout of the first event counts. Otherwise repeated events would put it off for ever.
            return false;
        }
        let due = delayed.due;
        if let Some(replaced) = self.by_pod.insert(pod.clone(), delayed) {
            self.by_time.remove(&(replaced.due, pod.clone()));
        }
        self.by_time.insert((due, pod));
        true
    }

    fn take(&mut self, pod: &str) -> Option<Delayed> {
        let (pod, delayed) = self.by_pod.remove_entry(pod)?;
        self.by_time.remove(&(delayed.due, pod));
        Some(delayed)
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
        let Some(waiting) = self.by_pod.get(&request.pod_name) else {
            return;
        };
        let settled = match waiting.request.event {
            // Another pod of the same name says nothing about this one.
            Event::PodPending => waiting.request.pod_uid == request.pod_uid,
            Event::PodFailed | Event::PodEvicted => request.event == Event::PodRunning,
            _ => false,
        };
        if settled {
            self.take(&request.pod_name);
        }
    }

    /// Takes back the actions of the same level, after this one was taken for the request: whatever is about the job, and
    /// about the same task, pod or partition.
    pub fn supersede(&mut self, action: &Action, request: &Request) {
        let taken = level(action);
        // An action for a smaller target may still be needed afterwards.
        let meant = |waiting: &Delayed| {
            let same = match taken {
                Level::Job => true,
                Level::Task => waiting.request.task_name == request.task_name,
                Level::Pod => waiting.request.pod_name == request.pod_name,
                Level::Partition => waiting.request.partition_id == request.partition_id,
            };
            same && level(&waiting.action) == taken
        };
        let superseded: Vec<String> = if taken == Level::Pod {
            let waiting = self.by_pod.get_key_value(&request.pod_name);
            let waiting = waiting.filter(|(_, waiting)| meant(waiting));
            waiting.map(|(pod, _)| pod.clone()).into_iter().collect()
        } else {
            let waiting = self.by_pod.iter().filter(|(_, waiting)| meant(waiting));
            waiting.map(|(pod, _)| pod.clone()).collect()
        };
        for pod in superseded {
            self.take(&pod);
        }
    }

    /// Takes out one that is due.
    pub fn due(&mut self, now: Timestamp) -> Option<Delayed> {
        let (_, pod) = self.by_time.first().filter(|(due, _)| *due <= now)?;
        let pod = pod.clone();
        self.take(&pod)
    }

    /// When the next one is due.
    pub fn next(&self) -> Option<Timestamp> {
        self.by_time.first().map(|(due, _)| *due)
    }
}
