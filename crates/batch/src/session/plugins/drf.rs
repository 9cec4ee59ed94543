//! Plugin drf: dominant resource fairness among jobs (S6-126), and along the paths of queues (S6-128).

use super::hierarchy::Hierarchy;
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

#[derive(Debug)]
pub(crate) struct Drf {
    pub(crate) jobs: Vec<JobShare>,
    hierarchy: Option<Hierarchy>,
}

impl Drf {
    pub(crate) fn open(model: &Model, hierarchical: bool) -> Self {
        let mut own = Self {
            jobs: vec![JobShare::default(); model.jobs.len()],
            hierarchy: hierarchical.then(|| Hierarchy::new(model)),
        };
        for (index, job) in model.jobs.iter().enumerate() {
            own.change(model, index, &job.allocated, true);
        }
        own
    }

    /// A job got room, or lost it.
    pub(crate) fn change(&mut self, model: &Model, job: usize, request: &Resource, more: bool) {
        let own = &mut self.jobs[job];
        if more {
            own.allocated.add(request);
        } else {
            own.allocated.sub(request);
        }
        (own.dominant, own.share) = own.allocated.dominant(&model.total);
        if let Some(hierarchy) = &mut self.hierarchy {
            hierarchy.change(model, job, request, more);
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
