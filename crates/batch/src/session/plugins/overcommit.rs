//! Plugin overcommit: a little more is let in than there is room for, so that room that becomes free is used at once
//! (S6-105).

use crate::session::Form;
use crate::session::model::{INQUEUE, Model};
use crate::session::resource::{Dim, Resource};

#[derive(Debug, Clone)]
pub(crate) struct Overcommit {
    /// All that the cluster has, times the factor, less what is used.
    idle: Resource,
    /// What jobs that were let in are waiting for.
    inqueue: Resource,
}

impl Overcommit {
    pub(crate) fn open(model: &Model, form: &Form, factor: f64) -> Self {
        let factor = if factor < 1.0 { 1.2 } else { factor };
        let mut idle = model.total.clone();
        idle.scale(factor);
        for node in &model.nodes {
            idle.sub(&node.used);
        }
        let mut inqueue = Resource::default();
        for (index, job) in model.live_jobs() {
            let Some(promised) = model.promised(index, form) else {
                continue;
            };
            // Of a job that was let in all counts, whatever it holds already.
            match &job.min_resources {
                Some(min) if job.phase == INQUEUE => inqueue.add(&job.without_gated(min)),
                _ => inqueue.add(&promised),
            }
        }
        Self { idle, inqueue }
    }

    /// The dimensions of which a job needs more than there is, beside what it has to leave over for another.
    pub(crate) fn lacking(&self, need: &Resource, kept: Option<&Resource>) -> Vec<Dim> {
        let mut sum = self.with(need);
        if let Some(kept) = kept {
            sum.add(kept);
        }
        sum.exceeded(&self.idle, need).collect()
    }

    /// What would be promised if a job with this need was let in.
    pub(crate) fn with(&self, need: &Resource) -> Resource {
        let mut sum = self.inqueue.clone();
        sum.add(need);
        sum
    }

    /// How much may be promised.
    pub(crate) const fn limit(&self) -> &Resource {
        &self.idle
    }

    /// A job was let in that needs so much.
    pub(crate) fn let_in(&mut self, need: &Resource) {
        self.inqueue.add(need);
    }
}
