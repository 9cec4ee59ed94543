//! Victims of a gang in bundles: tasks that their job can spare, and the rest of it (S6-195 to S6-197).

use crate::session::eviction_kind::EvictionKind;
use crate::session::plugins::Tiers;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::{Resource, share};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::{Status, Task};
use hashbrown::HashMap;
use std::cmp::Ordering;

/// Tasks of one job that are evicted together.
#[derive(Debug)]
pub(super) struct Bundle {
    pub(super) job: JobId,
    pub(super) tasks: Vec<TaskId>,
    /// Whether the job cannot run without them.
    pub(super) whole: bool,
    /// The part of the demand that it frees, by the size of its job.
    gain: f64,
}

impl Bundle {
    fn of(
        snapshot: &Snapshot,
        demand: &Resource,
        (job, tasks, whole): (JobId, Vec<TaskId>, bool),
    ) -> Option<Self> {
        let freed = sum(snapshot, tasks.iter().copied());
        let gain = if whole {
            let parts = |amount: &Resource, most: f64| -> f64 {
                let demanded = demand.some();
                demanded
                    .map(|(dim, wanted)| share(amount.get(dim), wanted).min(most))
                    .sum()
            };
            let cost = parts(&snapshot.jobs[job].total_request, f64::INFINITY);
            parts(&freed, 1.0) / cost
        } else {
            f64::INFINITY
        };
        (!tasks.is_empty()).then_some(Self {
            job,
            tasks,
            whole,
            gain,
        })
    }
}

/// The requests of tasks together.
pub(super) fn sum(snapshot: &Snapshot, tasks: impl Iterator<Item = TaskId>) -> Resource {
    tasks.fold(Resource::default(), |mut sum, task| {
        sum.add(&snapshot.tasks[task].request);
        sum
    })
}

/// The parts of a job that it can lose, by policy.
#[derive(Default)]
struct PartsLeft {
    /// Whether some policy says how many parts the job needs.
    counts: bool,
    by_policy: HashMap<Option<usize>, i32>,
    /// Parts that lack a task already, so that another one costs nothing.
    broken: Vec<usize>,
}

impl PartsLeft {
    fn of(snapshot: &Snapshot, job: JobId) -> Self {
        let mut left = Self::default();
        let Some(network) = &snapshot.jobs[job].network else {
            return left;
        };
        for (at, part) in network.sub_jobs.iter().enumerate() {
            if part.is_ready(&snapshot.tasks) {
                *left.by_policy.entry(part.policy).or_default() += 1;
            } else {
                left.broken.push(at);
            }
        }
        for (at, policy) in network.policies.iter().enumerate() {
            if let Some(min) = policy.min_sub_groups {
                left.counts = true;
                let left = left.by_policy.entry(Some(at)).or_default();
                *left = left.saturating_sub(min);
            }
        }
        left
    }

    fn can_spare(&self, snapshot: &Snapshot, task: &Task) -> bool {
        let Some(part) = snapshot.sub_job_of(task).filter(|_| self.counts) else {
            return true;
        };
        let left = self.by_policy.get(&part.policy).copied().unwrap_or(0);
        self.broken.contains(&task.sub_job) || left > 0
    }

    fn take(&mut self, snapshot: &Snapshot, task: &Task) {
        if let Some(part) = snapshot.sub_job_of(task).filter(|_| self.counts)
            && !self.broken.contains(&task.sub_job)
        {
            self.broken.push(task.sub_job);
            let left = self.by_policy.entry(part.policy).or_default();
            *left = left.saturating_sub(1);
        }
    }
}

/// Splits the candidates of a job: those that it can spare, and the rest. All of a job below its minimum are spare.
fn split(snapshot: &Snapshot, job_id: JobId, tasks: Vec<TaskId>) -> (Vec<TaskId>, Vec<TaskId>) {
    let job = &snapshot.jobs[job_id];
    let mut surplus = job.ready().saturating_sub(job.min_member);
    if surplus < 0 {
        return (tasks, Vec::new());
    }
    let mut by_role: HashMap<Role, i32> = HashMap::new();
    if job.counts_by_role() {
        let ready = snapshot.by_role(job_id, |task| {
            task.status.is_allocated() || task.status == Status::Succeeded
        });
        for (role, min) in &job.min_task_member {
            let ready = ready.get(role).copied().unwrap_or(0);
            by_role.insert(*role, ready.saturating_sub(*min));
        }
    }
    let mut parts = PartsLeft::of(snapshot, job_id);
    tasks.into_iter().partition(|id| {
        let task = &snapshot.tasks[*id];
        let left = by_role.get_mut(&task.role);
        let spare = surplus > 0
            && left.as_ref().is_none_or(|left| **left > 0)
            && parts.can_spare(snapshot, task);
        if spare {
            surplus -= 1;
            if let Some(left) = left {
                *left -= 1;
            }
            parts.take(snapshot, task);
        }
        spare
    })
}

/// The bundles of the candidates in the order in which they are taken.
pub(super) fn bundles(
    tiers: Tiers<'_>,
    kind: EvictionKind,
    preemptor: JobId,
    demand: &Resource,
    candidates: Vec<TaskId>,
) -> Vec<Bundle> {
    let snapshot = tiers.snapshot;
    let mut by_job: Vec<(JobId, Vec<TaskId>)> = Vec::new();
    for task in candidates {
        let job = snapshot.tasks[task].job;
        match by_job.iter_mut().find(|(known, _)| *known == job) {
            Some((_, tasks)) => tasks.push(task),
            None => by_job.push((job, vec![task])),
        }
    }
    let mut bundles = Vec::new();
    for (job, mut tasks) in by_job {
        tasks.sort_by(|one, other| {
            let (one, other) = (&snapshot.tasks[*one], &snapshot.tasks[*other]);
            let order = one.priority.cmp(&other.priority);
            order.then_with(|| one.id.cmp(&other.id))
        });
        let (safe, rest) = split(snapshot, job, tasks);
        bundles.extend(Bundle::of(snapshot, demand, (job, safe, false)));
        bundles.extend(Bundle::of(snapshot, demand, (job, rest, true)));
    }
    let to = snapshot.jobs[preemptor].queue;
    bundles.sort_by(|one, other| {
        let queue = |bundle: &Bundle| snapshot.jobs[bundle.job].queue;
        let order = match kind {
            EvictionKind::GangReclaim if queue(one) != queue(other) => {
                if tiers.loses_before(queue(one), queue(other), to) {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
            EvictionKind::GangReclaim => Ordering::Equal,
            _ => tiers.victim_job_order(one.job, other.job),
        };
        let order = one.whole.cmp(&other.whole).then(order);
        let order = order.then_with(|| other.gain.total_cmp(&one.gain));
        // The UID of a group follows its name, which orders jobs in the same way.
        order.then_with(|| {
            snapshot.jobs[one.job]
                .key
                .cmp(&snapshot.jobs[other.job].key)
        })
    });
    bundles
}
