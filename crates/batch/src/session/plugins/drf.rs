//! Plugin drf: dominant resource fairness among jobs (S6-126), and along the paths of queues (S6-128).

use super::hierarchy::Hierarchy;
use crate::conf::{Plugin, Switch};
use crate::session::model::Model;
use crate::session::resource::{Dim, Resource};
use hashbrown::HashMap;
use std::cmp::Ordering;

/// Shares that differ by less are equal.
const DELTA: f64 = 1e-6;

/// What a job holds.
#[derive(Debug, Clone, Default)]
pub(crate) struct JobShare {
    allocated: Resource,
    pub(crate) dominant: Option<Dim>,
    pub(crate) share: f64,
}

impl JobShare {
    fn change(&mut self, model: &Model, request: &Resource, more: bool) {
        if more {
            self.allocated.add(request);
        } else {
            self.allocated.sub(request);
        }
        (self.dominant, self.share) = self.allocated.dominant(&model.total);
    }
}

/// The order of two shares when the first has got an amount and the second has lost one.
fn compare_after(
    model: &Model,
    (own, more): (&JobShare, &Resource),
    (other, less): (&JobShare, &Resource),
) -> Ordering {
    let (mut with, mut without) = (own.allocated.clone(), other.allocated.clone());
    with.add(more);
    without.sub(less);
    let (_, with) = with.dominant(&model.total);
    let (_, without) = without.dominant(&model.total);
    if with > without + DELTA {
        Ordering::Greater
    } else if own.share + DELTA < other.share {
        Ordering::Less
    } else {
        Ordering::Equal
    }
}

#[derive(Debug)]
pub(crate) struct Drf {
    pub(crate) jobs: Vec<JobShare>,
    hierarchy: Option<Hierarchy>,
    /// What the jobs of each namespace hold, if namespaces are compared first (S6-127).
    namespaces: Option<HashMap<Box<str>, JobShare>>,
}

fn namespace(model: &Model, job: usize) -> &str {
    let key = &model.jobs[job].key;
    key.split_once('/').map_or(key, |(namespace, _)| namespace)
}

impl Drf {
    pub(crate) fn open(model: &Model, plugin: &Plugin) -> Self {
        let mut own = Self {
            jobs: vec![JobShare::default(); model.jobs.len()],
            hierarchy: plugin.is_hierarchical().then(|| Hierarchy::new(model)),
            namespaces: plugin.at(Switch::NamespaceOrder).then(HashMap::new),
        };
        for (index, job) in model.live_jobs() {
            own.count(model, index, &job.allocated, true);
        }
        if let Some(hierarchy) = &mut own.hierarchy {
            hierarchy.update(model);
        }
        own
    }

    fn count(&mut self, model: &Model, job: usize, request: &Resource, more: bool) {
        let namespaces = self.namespaces.as_mut();
        let namespaces = namespaces.map(|own| own.entry(namespace(model, job).into()).or_default());
        for own in namespaces.into_iter().chain([&mut self.jobs[job]]) {
            own.change(model, request, more);
        }
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.change(model, job, request, more);
        }
    }

    /// Whether namespaces are compared before jobs.
    pub(crate) const fn has_namespaces(&self) -> bool {
        self.namespaces.is_some()
    }

    /// Which of two jobs has the namespace that holds less; equal if namespaces are not compared.
    pub(crate) fn compare_namespaces(&self, model: &Model, one: usize, other: usize) -> Ordering {
        let Some(namespaces) = &self.namespaces else {
            return Ordering::Equal;
        };
        let share = |job| {
            let own = namespaces.get(namespace(model, job));
            own.map_or(0.0, |own| own.share)
        };
        share(one).total_cmp(&share(other))
    }

    /// A job got room, or lost it.
    pub(crate) fn change(&mut self, model: &Model, job: usize, request: &Resource, more: bool) {
        self.count(model, job, request, more);
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.update(model);
        }
    }

    pub(crate) fn share(&self, job: usize) -> f64 {
        self.jobs[job].share
    }

    /// Who of some tasks holds more than the preemptor would; each that goes lowers the share of its job.
    pub(crate) fn victims(
        &self,
        model: &Model,
        preemptor: usize,
        candidates: &[usize],
    ) -> Vec<usize> {
        let task = &model.tasks[preemptor];
        let mut with = self.jobs[task.job].allocated.clone();
        with.add(&task.request);
        let (_, own) = with.dominant(&model.total);
        let mut left: HashMap<usize, Resource> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &model.tasks[*candidate];
            let left = left
                .entry(task.job)
                .or_insert_with(|| self.jobs[task.job].allocated.clone());
            left.sub(&task.request);
            let (_, theirs) = left.dominant(&model.total);
            own < theirs || (own - theirs).abs() <= DELTA
        });
        victims.collect()
    }

    /// Whether a task's job comes before another one: it held less, and does not hold more when the task has its room and the
    /// other job has lost so much. Where the task would go beyond that the other one comes first.
    pub(crate) fn compare_after(
        &self,
        model: &Model,
        task: usize,
        other: usize,
        lost: &Resource,
    ) -> Ordering {
        let own = &model.tasks[task];
        let of_jobs = compare_after(
            model,
            (&self.jobs[own.job], &own.request),
            (&self.jobs[other], lost),
        );
        let (left, right) = (namespace(model, own.job), namespace(model, other));
        let Some(namespaces) = self.namespaces.as_ref().filter(|_| left != right) else {
            return of_jobs;
        };
        let nothing = JobShare::default();
        let of = |name: &str| namespaces.get(name).unwrap_or(&nothing);
        let of_namespaces = compare_after(model, (of(left), &own.request), (of(right), lost));
        of_namespaces.then(of_jobs)
    }

    /// Whether queues have shares along their paths.
    pub(crate) const fn is_hierarchical(&self) -> bool {
        self.hierarchy.is_some()
    }

    /// Which of two queues comes first along their paths; equal without a hierarchy.
    pub(crate) fn compare_queues(&self, one: usize, other: usize) -> Ordering {
        let hierarchy = self.hierarchy.as_ref();
        hierarchy.map_or(Ordering::Equal, |own| own.compare(one, other))
    }

    /// Who of some tasks of other queues goes so that the queue of the reclaimer still comes before theirs.
    pub(crate) fn reclaimed(
        &self,
        model: &Model,
        reclaimer: usize,
        candidates: &[usize],
    ) -> Option<Vec<usize>> {
        let mut tree = self.hierarchy.clone()?;
        let task = &model.tasks[reclaimer];
        let queue = model.jobs[task.job].queue;
        tree.change(model, task.job, &task.request, true);
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &model.tasks[*candidate];
            tree.change(model, task.job, &task.request, false);
            tree.update(model);
            let order = tree.compare(queue, model.jobs[task.job].queue);
            tree.change(model, task.job, &task.request, true);
            order == Ordering::Less
        });
        Some(victims.collect())
    }
}
