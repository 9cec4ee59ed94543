//! Which pods of a job are there, which are missing and which are too many (S6-040 to S6-043).

use super::belonging::is_marked;
use super::call::Call;
use super::creation::Creation;
use super::dependencies;
use super::failure::RoundError;
use super::info::Pods;
use super::lister::Lister;
use super::object::pod_name;
use super::pods::Shared;
use super::status;
use super::termination;
use evictd_batch_objects::{Compat, Difference, Job, JobStatus, TaskPod, TaskSpec};
use evictd_pod::wire::PodPhase;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

/// How many pods of a job are made at a time. Others have their turn between.
const BATCH: usize = 100;

/// The existing pods, and the missing ones.
#[derive(Debug, Default)]
pub(super) struct PodDiff {
    /// The pods that are missing: places of tasks, and indices.
    missing: VecDeque<(usize, Range<i32>)>,
    /// The pods that are being made, in the order of the calls.
    pub(super) made: Vec<Made>,
    /// The surplus pods: beyond the replicas, or marked by an interrupted termination (S6-035).
    pub(super) surplus: Vec<Arc<TaskPod>>,
    /// The pods that are there; only the counts are set.
    pub(super) counts: JobStatus,
    /// The number of tasks.
    pub(super) tasks: usize,
}

/// Whether nothing depends on the indices of the task's pods: no list of hosts, no rank, no partition.
fn is_free_of_indices(job: &Job, task: &TaskSpec) -> bool {
    job.spec.plugins.is_empty() && task.partition_policy.is_none()
}

/// The index at the end of a pod's name.
fn index(name: &str) -> i32 {
    let (_, index) = name.rsplit_once('-').unwrap_or_default();
    index.parse().unwrap_or(i32::MAX)
}

/// A pod that is being made.
#[derive(Debug)]
pub(super) struct Made {
    /// The place of its task.
    pub(super) task: usize,
    pub(super) name: String,
}

impl PodDiff {
    /// Looks through the pods.
    pub(super) fn take(
        &mut self,
        job: &Job,
        pods: &BTreeMap<String, Pods>,
        compat: Compat,
        lister: &dyn Lister,
    ) {
        let names: BTreeSet<&str> = job.spec.tasks.iter().map(|task| &*task.name).collect();
        self.tasks = names.len();
        let find = dependencies::finder(job, pods, lister);
        for (place, task) in job.spec.tasks.iter().enumerate() {
            let mut left = pods.get(&task.name).cloned().unwrap_or_default();
            let ready = dependencies::are_ready(job, task, compat, &find);
            if compat.has(Difference::LeastUsefulFirst) && is_free_of_indices(job, task) {
                self.take_useful(job, (place, task), left, ready, compat);
                continue;
            }
            for index in 0..task.replicas {
                let name = pod_name(&job.metadata.name, &task.name, index);
                match left.remove(&name) {
                    Some(pod) => self.found(job, &task.name, pod, compat),
                    None if ready => self.lacks(place, index),
                    None => {}
                }
            }
            self.surplus.extend(left.into_values());
        }
    }

    /// The most useful pods stay, whatever their index is. As many are created as are missing then.
    fn take_useful(
        &mut self,
        job: &Job,
        (place, task): (usize, &TaskSpec),
        pods: Pods,
        ready: bool,
        compat: Compat,
    ) {
        let taken: BTreeSet<String> = pods.keys().cloned().collect();
        let ends = |pod: &TaskPod| pod.metadata.deletion_timestamp.is_some() || is_marked(pod);
        let (ending, mut staying): (Vec<_>, Vec<_>) = pods.into_values().partition(|pod| ends(pod));
        for pod in ending {
            self.found(job, &task.name, pod, compat);
        }
        staying.sort_by_key(|pod| {
            let waits = pod.status.phase == PodPhase::Pending;
            let ended = pod.status.phase.has_ended();
            // The result of a pod that has ended is kept, and a pod that waits has done nothing yet.
            (!ended, waits, index(&pod.metadata.name))
        });
        let replicas = usize::try_from(task.replicas).unwrap_or(0);
        let surplus = staying.split_off(replicas.min(staying.len()));
        let mut wanted = replicas - staying.len();
        for pod in staying {
            self.found(job, &task.name, pod, compat);
        }
        self.surplus.extend(surplus);
        for index in 0..task.replicas {
            let name = pod_name(&job.metadata.name, &task.name, index);
            if ready && wanted > 0 && !taken.contains(&name) {
                wanted -= 1;
                self.lacks(place, index);
            }
        }
    }

    fn lacks(&mut self, task: usize, index: i32) {
        match self.missing.back_mut() {
            Some((last, indices)) if *last == task && indices.end == index => {
                indices.end += 1;
            }
            _ => self.missing.push_back((task, index..index + 1)),
        }
    }

    /// The shared parts of the missing pods; none if no pod is missing. An error if one could not be stored.
    pub(super) fn shared(&self, job: &Arc<Job>) -> Result<Option<Arc<Shared>>, RoundError> {
        if self.missing.is_empty() {
            return Ok(None);
        }
        let shared = Shared::new(job)?;
        for (task, _) in &self.missing {
            shared.check(*task)?;
        }
        Ok(Some(shared))
    }

    /// The calls that make the next of the missing pods.
    pub(super) fn next(&mut self, shared: &Arc<Shared>) -> Vec<Call> {
        let mut calls = Vec::new();
        while calls.len() < BATCH
            && let Some((task, indices)) = self.missing.front_mut()
        {
            let Some(index) = indices.next() else {
                self.missing.pop_front();
                continue;
            };
            let pod = Creation::new(Arc::<Shared>::clone(shared), *task, index);
            self.made.push(Made {
                task: *task,
                name: pod.name(),
            });
            calls.push(Call::CreatePod { pod });
        }
        calls
    }

    fn found(&mut self, job: &Job, task: &str, pod: Arc<TaskPod>, compat: Compat) {
        if pod.metadata.deletion_timestamp.is_some() {
            self.counts.terminating += 1;
            return;
        }
        status::count(&mut self.counts, task, &pod);
        // A termination that the status does not record yet is resumed as a whole.
        let resumes =
            compat.has(Difference::ResumeTermination) && termination::is_unrecorded(job, &pod);
        if is_marked(&pod) && !resumes {
            self.surplus.push(pod);
        }
    }
}
