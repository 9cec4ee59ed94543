//! How many pods a task has in each phase. The counts follow each change of a pod, because a job of 20 000 pods cannot look
//! at all of them at each event of one.

use super::status;
use evictd_batch_objects::{JobStatus, TaskContainer, TaskPod};
use evictd_pod::wire::PodPhase;
use std::collections::BTreeMap;

/// The phases that a job's status counts. A pod without one of the others counts as the last.
const PHASES: [PodPhase; 5] = [
    PodPhase::Pending,
    PodPhase::Running,
    PodPhase::Succeeded,
    PodPhase::Failed,
    PodPhase::Unknown,
];
const SUCCEEDED: usize = 2;
const UNKNOWN: usize = 4;

/// The pods of a task.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PodCounts {
    /// By phase: the pods that are not being deleted.
    staying: [usize; 5],
    /// By phase: the pods that are being deleted.
    terminating: [usize; 5],
    /// How often the containers of pending and running pods have restarted.
    restarts: i64,
}

fn phase(pod: &TaskPod) -> usize {
    match pod.status.phase {
        PodPhase::Pending => 0,
        PodPhase::Running => 1,
        PodPhase::Succeeded => SUCCEEDED,
        PodPhase::Failed => 3,
        PodPhase::Unknown | PodPhase::Other(_) => UNKNOWN,
    }
}

fn restarts(pod: &TaskPod) -> i64 {
    let status = &pod.status;
    if !matches!(status.phase, PodPhase::Running | PodPhase::Pending) {
        return 0;
    }
    let containers = status.init_container_statuses.iter();
    let containers = containers.chain(&status.container_statuses);
    let restarts = |container: &TaskContainer| i64::from(container.restart_count);
    containers.map(restarts).sum()
}

impl PodCounts {
    fn of_phase(&mut self, pod: &TaskPod) -> &mut usize {
        let phases = match pod.metadata.deletion_timestamp {
            None => &mut self.staying,
            Some(_) => &mut self.terminating,
        };
        &mut phases[phase(pod)]
    }

    fn add(&mut self, pod: &TaskPod) {
        *self.of_phase(pod) += 1;
        self.restarts += restarts(pod);
    }

    /// Takes out a pod that was added in the same state.
    fn remove(&mut self, pod: &TaskPod) {
        let count = self.of_phase(pod);
        *count = count.saturating_sub(1);
        self.restarts -= restarts(pod);
    }

    /// The pods that have succeeded.
    pub(super) const fn succeeded(&self) -> usize {
        self.staying[SUCCEEDED] + self.terminating[SUCCEEDED]
    }

    /// The pods that wait, run or have succeeded, and are not being deleted.
    pub(super) const fn useful(&self) -> usize {
        self.staying[0] + self.staying[1] + self.staying[SUCCEEDED]
    }

    /// The pods that are not being deleted.
    pub(super) fn staying(&self) -> usize {
        self.staying.iter().sum()
    }

    /// How often the containers of pending and running pods have restarted.
    pub(super) const fn restarts(&self) -> i64 {
        self.restarts
    }
}

/// The pods of a job, by task. A task without pods has no entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TaskCounts(BTreeMap<String, PodCounts>);

impl TaskCounts {
    pub(super) fn add(&mut self, task: &str, pod: &TaskPod) {
        match self.0.get_mut(task) {
            Some(counts) => counts.add(pod),
            None => self.0.entry(task.to_owned()).or_default().add(pod),
        }
    }

    /// Takes out a pod that was added in the same state.
    pub(super) fn remove(&mut self, task: &str, pod: &TaskPod) {
        if let Some(counts) = self.0.get_mut(task) {
            counts.remove(pod);
            if *counts == PodCounts::default() {
                self.0.remove(task);
            }
        }
    }

    pub(super) fn of_task(&self, task: &str) -> Option<&PodCounts> {
        self.0.get(task)
    }

    /// How many pods are being deleted.
    pub(super) fn terminating(&self) -> usize {
        let all = self.0.values().flat_map(|counts| counts.terminating);
        all.sum()
    }

    /// Counts the pods that are not being deleted in a job's status.
    pub(super) fn count_staying(&self, status: &mut JobStatus) {
        for (task, counts) in &self.0 {
            for (phase, pods) in PHASES.iter().zip(counts.staying) {
                status::count_pods(status, task, phase, pods);
            }
        }
    }
}
