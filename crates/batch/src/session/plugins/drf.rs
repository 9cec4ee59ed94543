//! Plugin drf: dominant resource fairness among jobs (S6-126), and along the paths of queues (S6-128).

use super::hierarchy::Hierarchy;
use super::{Lost, Plugin, Tiers};
use crate::conf::{self, Switch};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource};
use hashbrown::HashMap;
use std::cmp::Ordering;

/// Shares that differ by less are equal.
const DELTA: f64 = 1e-6;

/// The share of a job or namespace.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobShare {
    allocated: Resource,
    pub(crate) dominant: Option<Dim>,
    pub(crate) share: f64,
}

impl JobShare {
    fn change(&mut self, snapshot: &Snapshot, request: &Resource, more: bool) {
        if more {
            self.allocated.add(request);
        } else {
            self.allocated.sub(request);
        }
        (self.dominant, self.share) = self.allocated.dominant(&snapshot.total);
    }
}

/// The order of two shares when the first has got an amount and the second has lost one.
fn compare_after(
    snapshot: &Snapshot,
    (job, more): (&JobShare, &Resource),
    (other, less): (&JobShare, &Resource),
) -> Ordering {
    let (mut with, mut without) = (job.allocated.clone(), other.allocated.clone());
    with.add(more);
    without.sub(less);
    let (_, with) = with.dominant(&snapshot.total);
    let (_, without) = without.dominant(&snapshot.total);
    if with > without + DELTA {
        Ordering::Greater
    } else if job.share + DELTA < other.share {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

#[derive(Debug)]
pub(crate) struct Drf {
    pub(crate) jobs: Vec<JobShare>,
    hierarchy: Option<Hierarchy>,
    /// The share of each namespace, if namespaces are compared first (S6-127).
    namespaces: Option<HashMap<Box<str>, JobShare>>,
}

fn namespace(snapshot: &Snapshot, job: JobId) -> &str {
    let key = &snapshot.jobs[job].key;
    key.split_once('/').map_or(key, |(namespace, _)| namespace)
}

impl Drf {
    pub(super) fn open(snapshot: &Snapshot, plugin: &conf::Plugin) -> Self {
        let mut drf = Self {
            jobs: vec![JobShare::default(); snapshot.jobs.len()],
            hierarchy: plugin.is_hierarchical().then(|| Hierarchy::new(snapshot)),
            namespaces: plugin.at(Switch::NamespaceOrder).then(HashMap::new),
        };
        for (index, job) in snapshot.live_jobs() {
            drf.count(snapshot, index, &job.allocated, true);
        }
        if let Some(hierarchy) = &mut drf.hierarchy {
            hierarchy.update(snapshot);
        }
        drf
    }

    fn count(&mut self, snapshot: &Snapshot, job: JobId, request: &Resource, more: bool) {
        let namespaces = self.namespaces.as_mut();
        let namespaces =
            namespaces.map(|shares| shares.entry(namespace(snapshot, job).into()).or_default());
        for share in namespaces.into_iter().chain([&mut self.jobs[job]]) {
            share.change(snapshot, request, more);
        }
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.change(snapshot, job, request, more);
        }
    }

    /// Which of two jobs has the namespace that holds less; equal if namespaces are not compared.
    fn compare_namespaces(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        let Some(namespaces) = &self.namespaces else {
            return Ordering::Equal;
        };
        let share = |job| {
            let share = namespaces.get(namespace(snapshot, job));
            share.map_or(0.0, |share| share.share)
        };
        share(one).total_cmp(&share(other))
    }

    /// A job got room, or lost it.
    fn change(&mut self, snapshot: &Snapshot, job: JobId, request: &Resource, more: bool) {
        self.count(snapshot, job, request, more);
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.update(snapshot);
        }
    }

    fn share(&self, job: JobId) -> f64 {
        self.jobs[job].share
    }

    /// The candidates whose jobs hold more than the preemptor's would; each eviction lowers the share of its job.
    fn victims(
        &self,
        snapshot: &Snapshot,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Vec<TaskId> {
        let task = &snapshot.tasks[preemptor];
        let mut with = self.jobs[task.job].allocated.clone();
        with.add(&task.request);
        let (_, ours) = with.dominant(&snapshot.total);
        let mut left: HashMap<JobId, Resource> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &snapshot.tasks[*candidate];
            let left = left
                .entry(task.job)
                .or_insert_with(|| self.jobs[task.job].allocated.clone());
            left.sub(&task.request);
            let (_, theirs) = left.dominant(&snapshot.total);
            ours < theirs || (ours - theirs).abs() <= DELTA
        });
        victims.collect()
    }

    /// Whether a task's job comes before another one: it has the smaller share, and no larger one once the task is
    /// placed and the other job has lost an amount. If its share would be larger then, the other job comes first.
    fn compare_after(
        &self,
        snapshot: &Snapshot,
        task: TaskId,
        other: JobId,
        lost: &Resource,
    ) -> Ordering {
        let task = &snapshot.tasks[task];
        let of_jobs = compare_after(
            snapshot,
            (&self.jobs[task.job], &task.request),
            (&self.jobs[other], lost),
        );
        let (left, right) = (namespace(snapshot, task.job), namespace(snapshot, other));
        let Some(namespaces) = self.namespaces.as_ref().filter(|_| left != right) else {
            return of_jobs;
        };
        let nothing = JobShare::default();
        let of = |name: &str| namespaces.get(name).unwrap_or(&nothing);
        let of_namespaces = compare_after(snapshot, (of(left), &task.request), (of(right), lost));
        of_namespaces.then(of_jobs)
    }

    /// The candidates of other queues that can be evicted while the reclaimer's queue still comes first.
    fn reclaimed(
        &self,
        snapshot: &Snapshot,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let mut tree = self.hierarchy.clone()?;
        let task = &snapshot.tasks[reclaimer];
        let queue = snapshot.jobs[task.job].queue;
        tree.change(snapshot, task.job, &task.request, true);
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &snapshot.tasks[*candidate];
            tree.change(snapshot, task.job, &task.request, false);
            tree.update(snapshot);
            let order = tree.compare(queue, snapshot.jobs[task.job].queue);
            tree.change(snapshot, task.job, &task.request, true);
            order == Ordering::Less
        });
        Some(victims.collect())
    }
}

impl Plugin for Drf {
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        let namespaces = self.compare_namespaces(snapshot, one, other);
        namespaces.then_with(|| self.share(one).total_cmp(&self.share(other)))
    }

    fn job_order_message(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Option<String> {
        if self.compare_namespaces(snapshot, one, other).is_lt() {
            return Some("its namespace holds less".to_owned());
        }
        Some(format!(
            "it holds {:.1} % of the cluster against {:.1} %",
            self.share(one) * 100.0,
            self.share(other) * 100.0
        ))
    }

    fn job_order_after(
        &self,
        snapshot: &Snapshot,
        task: TaskId,
        job: JobId,
        lost: &Lost,
    ) -> Ordering {
        self.compare_after(snapshot, task, job, &lost.amount)
    }

    fn queue_order(&self, _: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.map_or(Ordering::Equal, |hierarchy| hierarchy.compare(one, other))
    }

    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        Some(self.victims(tiers.snapshot, preemptor, candidates))
    }

    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.reclaimed(tiers.snapshot, reclaimer, candidates)
    }

    fn might_yield(&self, _: &Snapshot, job: JobId, to: JobId) -> Option<bool> {
        Some(self.share(job) > self.share(to))
    }

    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        let task = &snapshot.tasks[task];
        self.change(snapshot, task.job, &task.request, true);
    }

    fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        let task = &snapshot.tasks[task];
        self.change(snapshot, task.job, &task.request, false);
    }

    fn knows_shares(&self) -> bool {
        self.hierarchy.is_some()
    }

    fn job_shares(&self) -> Option<&[JobShare]> {
        Some(&self.jobs)
    }

    fn compares_namespaces(&self) -> bool {
        self.namespaces.is_some()
    }
}
