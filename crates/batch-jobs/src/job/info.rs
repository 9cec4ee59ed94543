//! A job and its pods, as far as a controller knows them (S6-015).

use super::belonging::partition;
use super::pod_counts::{PodCounts, TaskCounts};
use super::termination::Terminations;
use evictd_batch_objects::{Job, TASK_SPEC, TaskPod, TaskSpec};
use evictd_pod::wire::PodPhase;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Pods of a task, by name.
pub(crate) type Pods = BTreeMap<String, Arc<TaskPod>>;

/// A job and its pods. A pod may be seen before its job, and stay after it.
#[derive(Debug, Clone, Default)]
pub struct JobInfo {
    /// The job, from its first sight until its deletion.
    pub job: Option<Arc<Job>>,
    /// Names of pods whose deletion was refused a short while ago: they are not marked or deleted again yet.
    pub refused: BTreeSet<String>,
    /// Its pods, by task.
    pods: BTreeMap<String, Pods>,
    counts: TaskCounts,
    /// The names of pods that have a partition, by task and partition.
    partitions: BTreeMap<(String, String), BTreeSet<String>>,
    terminations: Terminations,
}

fn task_of(pod: &TaskPod) -> &str {
    pod.metadata.annotations.get(TASK_SPEC).unwrap_or_default()
}

impl JobInfo {
    /// Takes a newer state of the job. One that is older than the known one is refused (S6-015); returns whether it was
    /// taken. Another job of the same name is not older, whatever its version.
    pub fn set_job(&mut self, job: Job) -> bool {
        let version = |job: &Job| job.metadata.resource_version.parse::<u64>().unwrap_or(0);
        let older = self.job.as_ref().is_some_and(|known| {
            known.metadata.uid == job.metadata.uid && version(&job) < version(known)
        });
        if !older {
            self.job = Some(Arc::new(job));
        }
        !older
    }

    /// All pods, by task. A round may look at all of them, an event may not.
    pub fn pods(&self) -> &BTreeMap<String, Pods> {
        #[cfg(test)]
        tests::visit(self.pods.values().map(Pods::len).sum());
        &self.pods
    }

    /// The pods of a task.
    pub(super) fn pods_of_task(&self, task: &str) -> impl Iterator<Item = &Arc<TaskPod>> {
        let pods = self.pods.get(task);
        #[cfg(test)]
        tests::visit(pods.map_or(0, Pods::len));
        pods.into_iter().flat_map(Pods::values)
    }

    /// The pods of a partition of a task.
    pub(super) fn pods_of_partition(
        &self,
        task: &str,
        partition: &str,
    ) -> impl Iterator<Item = &Arc<TaskPod>> {
        let names = self
            .partitions
            .get(&(task.to_owned(), partition.to_owned()));
        #[cfg(test)]
        tests::visit(names.map_or(0, BTreeSet::len));
        let names = names.into_iter().flatten();
        names.filter_map(move |name| self.pod(task, name))
    }

    /// Whether the pod is known.
    pub fn has_pod(&self, pod: &TaskPod) -> bool {
        self.pod(task_of(pod), &pod.metadata.name).is_some()
    }

    /// Whether its task has as many other pods as it should have, so that this one is not replaced.
    pub(super) fn is_surplus(&self, pod: &TaskPod) -> bool {
        let name = task_of(pod);
        let known = self.pod(name, &pod.metadata.name);
        let counted = known.is_some_and(|known| known.metadata.deletion_timestamp.is_none());
        self.task(name).is_some_and(|(task, counts)| {
            let others = counts.staying().saturating_sub(usize::from(counted));
            usize::try_from(task.replicas).is_ok_and(|replicas| others >= replicas)
        })
    }

    /// Whether the gang is complete without the pod: the job and each of its tasks have as many others as they need.
    pub(super) fn is_complete_without(&self, job: &Job, task: &str, pod: &str) -> bool {
        let known = self.pod(task, pod);
        let counted = known.is_some_and(|known| {
            known.metadata.deletion_timestamp.is_none() && known.status.phase != PodPhase::Failed
        });
        let of = |name: &str| {
            let counts = self.counts.of_task(name);
            let useful = counts.map_or(0, PodCounts::useful);
            // The counts include the pod itself.
            useful.saturating_sub(usize::from(counted && name == task))
        };
        let enough = |pods: usize, least: i32| {
            i64::try_from(pods).is_ok_and(|pods| pods >= i64::from(least))
        };
        let tasks = &job.spec.tasks;
        let all = tasks.iter().map(|task| of(&task.name)).sum();
        enough(all, job.spec.min_available)
            && tasks.iter().all(|task| {
                let least = task.min_available.unwrap_or(0);
                enough(of(&task.name), least)
            })
    }

    /// A pod of a task.
    pub fn pod(&self, task: &str, name: &str) -> Option<&Arc<TaskPod>> {
        self.pods.get(task)?.get(name)
    }

    /// A pod of any task.
    pub(super) fn pod_of_any_task(&self, name: &str) -> Option<&Arc<TaskPod>> {
        self.pods.values().find_map(|pods| pods.get(name))
    }

    /// Adds or updates a pod; returns its earlier state.
    pub fn set_pod(&mut self, pod: Arc<TaskPod>) -> Option<Arc<TaskPod>> {
        let (task, name) = (task_of(&pod).to_owned(), pod.metadata.name.clone());
        let place = place_in_partition(&pod);
        self.counts.add(&task, &pod);
        self.terminations.add(&pod);
        if let Some(place) = place.clone() {
            let names = self.partitions.entry(place).or_default();
            names.insert(name.clone());
        }
        let old = self.pods.entry(task).or_default().insert(name, pod);
        if let Some(old) = &old {
            self.uncount(old);
            // A pod that is created again may be in another partition.
            if place_in_partition(old) != place {
                self.leave_partition(old);
            }
        }
        old
    }

    /// Forgets a pod.
    pub fn remove_pod(&mut self, pod: &TaskPod) {
        let task = task_of(pod);
        let Some(pods) = self.pods.get_mut(task) else {
            return;
        };
        let known = pods.remove(&pod.metadata.name);
        if pods.is_empty() {
            self.pods.remove(task);
        }
        // The state that was counted is the known one, not the last one.
        if let Some(known) = known {
            self.uncount(&known);
            self.leave_partition(&known);
        }
    }

    fn uncount(&mut self, pod: &TaskPod) {
        self.counts.remove(task_of(pod), pod);
        self.terminations.remove(pod);
    }

    fn leave_partition(&mut self, pod: &TaskPod) {
        if let Some(place) = place_in_partition(pod)
            && let Some(names) = self.partitions.get_mut(&place)
        {
            names.remove(&pod.metadata.name);
            if names.is_empty() {
                self.partitions.remove(&place);
            }
        }
    }

    /// How many pods there are.
    pub(super) const fn counts(&self) -> &TaskCounts {
        &self.counts
    }

    /// The terminations that are marked on pods.
    pub(super) const fn terminations(&self) -> &Terminations {
        &self.terminations
    }

    /// Whether nothing is left of it: no job and no pod (S6-015).
    pub fn is_gone(&self) -> bool {
        self.job.is_none() && self.pods.is_empty()
    }

    fn task(&self, name: &str) -> Option<(&TaskSpec, &PodCounts)> {
        let job = self.job.as_ref()?;
        let task = job.spec.tasks.iter().find(|task| task.name == name)?;
        Some((task, self.counts.of_task(name)?))
    }

    /// Whether as many pods of the task succeeded as it has replicas (S6-047).
    pub fn is_completed(&self, task: &str) -> bool {
        self.task(task).is_some_and(|(task, counts)| {
            let succeeded = i64::try_from(counts.succeeded()).unwrap_or(i64::MAX);
            task.replicas > 0 && succeeded >= i64::from(task.replicas)
        })
    }

    /// Whether the containers of the task's pods that wait or run have restarted as often as the task allows (S6-049).
    pub fn is_failed(&self, task: &str) -> bool {
        self.task(task).is_some_and(|(task, counts)| {
            let limit = match task.max_retry {
                0 => 3,
                limit => i64::from(limit),
            };
            task.replicas != 0 && task.max_retry != -1 && counts.restarts() >= limit
        })
    }
}

/// The task and partition of a pod that has one.
fn place_in_partition(pod: &TaskPod) -> Option<(String, String)> {
    let partition = partition(pod);
    (!partition.is_empty()).then(|| (task_of(pod).to_owned(), partition.to_owned()))
}

#[cfg(test)]
#[path = "info/tests.rs"]
pub(super) mod tests;
