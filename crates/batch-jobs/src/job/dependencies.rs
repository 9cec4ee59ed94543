//! Tasks that depend on others of their job (S6-043), and the smaller gang of the job meanwhile.
//!
//! In Volcano the gang of a job counts all of its tasks from the beginning. A job whose tasks depend on each other then
//! waits for ever for pods that are only created once others run (spark-operator#3154). In evictd the gang counts the
//! tasks whose turn has come, and grows with the others.

use super::info::Pods;
use super::lister::Lister;
use super::object::{namespace, pod_name};
use evictd_batch_objects::{Compat, Difference, Job, JobSpec, JobStatus, TaskPod, TaskSpec};
use evictd_pod::wire::PodPhase;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Finds a pod by its task and its name.
pub(super) type Find<'f> = dyn Fn(&str, &str) -> Option<Arc<TaskPod>> + 'f;

/// Looks for a pod among those that are known of the job, then through the lister.
pub(super) fn finder<'f>(
    job: &'f Job,
    pods: &'f BTreeMap<String, Pods>,
    lister: &'f dyn Lister,
) -> impl Fn(&str, &str) -> Option<Arc<TaskPod>> + 'f {
    |task, name| {
        let known = pods.get(task).and_then(|pods| pods.get(name)).cloned();
        known.or_else(|| lister.pod(namespace(job), name))
    }
}

/// Whether the tasks that this one waits for are ready: one of several with `any`, else all of them (S6-043).
pub(super) fn are_ready(job: &Job, task: &TaskSpec, compat: Compat, find: &Find<'_>) -> bool {
    let Some(wait) = &task.depends_on else {
        return true;
    };
    let ready = |name: &String| is_ready(job, name, compat, find);
    if wait.name.len() > 1 && wait.iteration == "any" {
        wait.name.iter().any(ready)
    } else {
        wait.name.iter().all(ready)
    }
}

/// Whether as many pods of the task are done or ready as it needs. One that there is not never is.
fn is_ready(job: &Job, name: &str, compat: Compat, find: &Find<'_>) -> bool {
    let Some(task) = job.spec.tasks.iter().find(|task| task.name == name) else {
        return false;
    };
    let needed = match task.min_available {
        None if !compat.has(Difference::UnsetMinAvailableNeedsAll) => return true,
        needed => needed.unwrap_or(task.replicas),
    };
    let pods = (0..task.replicas).filter_map(|index| {
        let pod = pod_name(&job.metadata.name, name, index);
        find(name, &pod)
    });
    let up = pods.filter(|pod| match pod.status.phase {
        // A task that has done its work is no obstacle to those after it.
        PodPhase::Succeeded => true,
        PodPhase::Running => pod
            .status
            .container_statuses
            .iter()
            .all(|status| status.ready),
        _ => false,
    });
    i64::try_from(up.count()).unwrap_or(i64::MAX) >= i64::from(needed)
}

/// How many pods of a task its job needs.
pub(super) fn needed(task: &TaskSpec) -> i32 {
    let parts = task.partition_policy.as_ref();
    let parts = parts.map(|parts| parts.min_partitions.saturating_mul(parts.partition_size));
    let parts = parts.filter(|pods| *pods != 0);
    task.min_available.or(parts).unwrap_or(task.replicas)
}

/// The tasks of a job whose turn has not come: they wait for others, and none of their pods is there.
#[derive(Debug, Clone, Default)]
pub(super) struct Waiting {
    tasks: BTreeSet<String>,
    /// Whether any task depends on others, and the gang leaves those out that wait.
    pub(super) in_stages: bool,
}

impl Waiting {
    pub(super) fn of(
        job: &Job,
        pods: &BTreeMap<String, Pods>,
        compat: Compat,
        lister: &dyn Lister,
    ) -> Self {
        let mut tasks = job.spec.tasks.iter();
        if !compat.has(Difference::GrowingGang) || tasks.all(|task| task.depends_on.is_none()) {
            return Self::default();
        }
        let find = finder(job, pods, lister);
        // Once a pod of a task exists, its turn has come for good.
        let has_pod = |task: &TaskSpec| {
            let pods = pods.get(&task.name);
            let mut pods = pods.into_iter().flat_map(BTreeMap::values);
            pods.any(|pod| pod.metadata.deletion_timestamp.is_none())
        };
        let waits = |task: &&TaskSpec| !are_ready(job, task, compat, &find) && !has_pod(task);
        let tasks = job.spec.tasks.iter().filter(waits);
        Self {
            tasks: tasks.map(|task| task.name.clone()).collect(),
            in_stages: true,
        }
    }

    pub(super) fn has(&self, task: &TaskSpec) -> bool {
        self.tasks.contains(&task.name)
    }

    /// Whether a task is not under way: it waits, or it was waited for and fewer of its pods have started than it needs.
    fn is_starting(&self, task: &TaskSpec, status: &JobStatus) -> bool {
        let started = counted(task, status, &["Running", "Succeeded", "Failed"]);
        self.has(task)
            || (self.in_stages && task.depends_on.is_some() && started < i64::from(needed(task)))
    }

    /// How many pods have to run at once of those whose turn has come.
    pub(super) fn min_available(&self, spec: &JobSpec) -> i32 {
        let min = min_without(spec, |task| self.has(task));
        i32::try_from(min).unwrap_or(spec.min_available)
    }

    /// The counts that decide the phase.
    pub(super) fn under_way(&self, spec: &JobSpec, status: &JobStatus) -> UnderWay {
        let starting = |task: &&TaskSpec| self.is_starting(task, status);
        let of = |phases: &[&str]| -> i64 {
            let tasks = spec.tasks.iter().filter(starting);
            tasks.map(|task| counted(task, status, phases)).sum()
        };
        let started =
            i64::from(status.running) + i64::from(status.succeeded) + i64::from(status.failed);
        let tasks = spec.tasks.iter().filter(|task| !starting(task));
        let there = spec.tasks.iter().filter(|task| !self.has(task));
        UnderWay {
            min_available: min_without(spec, |task| starting(&task)),
            replicas: tasks.map(|task| i64::from(task.replicas)).sum(),
            pending: i64::from(status.pending) - of(&["Pending"]),
            started: started - of(&["Running", "Succeeded", "Failed"]),
            all: there.map(|task| i64::from(task.replicas)).sum(),
        }
    }
}

/// The pods of tasks that are under way; where no task waits for others those of all.
#[derive(Debug, Clone, Copy)]
pub(super) struct UnderWay {
    /// How many of them are needed.
    pub(super) min_available: i64,
    /// How many there are when all are there.
    pub(super) replicas: i64,
    pub(super) pending: i64,
    /// Those that run, or have ended.
    pub(super) started: i64,
    /// How many pods there are of all tasks whose turn has come.
    pub(super) all: i64,
}

fn counted(task: &TaskSpec, status: &JobStatus, phases: &[&str]) -> i64 {
    let count = status.task_status_count.get(&task.name);
    let of_phase = |phase: &&str| count.and_then(|count| count.phase.get(*phase)).copied();
    phases.iter().filter_map(of_phase).map(i64::from).sum()
}

/// The number of pods that the job needs while some tasks are left out: its minimum less their minimum, and at least
/// the minimum of the others as far as the job asks for so many.
fn min_without(spec: &JobSpec, left_out: impl Fn(&TaskSpec) -> bool) -> i64 {
    let min = i64::from(spec.min_available);
    let (out, others): (Vec<&TaskSpec>, Vec<&TaskSpec>) =
        spec.tasks.iter().partition(|task| left_out(task));
    if out.is_empty() {
        return min;
    }
    let sum =
        |tasks: &[&TaskSpec]| -> i64 { tasks.iter().map(|task| i64::from(needed(task))).sum() };
    let replicas: i64 = others.iter().map(|task| i64::from(task.replicas)).sum();
    (min - sum(&out)).max(min.min(sum(&others))).min(replicas)
}
