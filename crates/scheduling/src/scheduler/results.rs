//! Results that the caller takes one by one.

use super::{Attempt, Outcome};
use crate::gang::{GroupObject, GroupOutcome, GroupResult};
use crate::pod_lifecycle::WaitingPod;
use crate::scheduling_queue::SchedulingQueue;
use std::collections::VecDeque;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct Results {
    /// Finished attempts of gangs and of pods that waited for permits.
    attempts: VecDeque<Attempt>,
    groups: Vec<GroupResult>,
    /// Gangs that must be bound all or none, by the keys of their pods.
    gang_bindings: Vec<Vec<Arc<str>>>,
    /// The result of the current attempt of a gang, as metrics name it (S7-054).
    of_gang: Option<&'static str>,
}

impl Results {
    pub(super) fn push(&mut self, attempt: Attempt) {
        self.attempts.push_back(attempt);
    }

    pub(super) fn push_waiting(&mut self, key: &Arc<str>, waiting: &WaitingPod, outcome: Outcome) {
        self.push(Attempt {
            key: Arc::clone(key),
            pod: Arc::clone(&waiting.pod),
            number: waiting.attempts,
            outcome,
        });
    }

    pub(super) fn push_group(&mut self, group: GroupObject, outcome: GroupOutcome) {
        self.groups.push(GroupResult { group, outcome });
    }

    /// Groups of these names are preempted as a whole for a single pod.
    pub(super) fn push_preempted(&mut self, queue: &SchedulingQueue, groups: &[Arc<str>]) {
        for group in groups.iter().filter_map(|name| queue.group_object(name)) {
            self.push_group(group, GroupOutcome::Preempted { for_group: false });
        }
    }

    /// The current attempt of a gang has this result.
    pub(super) const fn end_gang(&mut self, result: &'static str) {
        self.of_gang = Some(result);
    }

    /// The result of the last attempt of a gang; `None` if it was not tried.
    pub(super) const fn take_of_gang(&mut self) -> Option<&'static str> {
        self.of_gang.take()
    }

    pub(super) fn push_gang_binding(&mut self, keys: Vec<Arc<str>>) {
        self.gang_bindings.push(keys);
    }

    pub(super) fn next(&mut self) -> Option<Attempt> {
        self.attempts.pop_front()
    }

    pub(super) fn take_groups(&mut self) -> Vec<GroupResult> {
        std::mem::take(&mut self.groups)
    }

    pub(super) fn take_gang_bindings(&mut self) -> Vec<Vec<Arc<str>>> {
        std::mem::take(&mut self.gang_bindings)
    }
}
