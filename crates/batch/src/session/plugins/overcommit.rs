//! Plugin overcommit: a little more is let in than there is room for, so that room that becomes free is used at once
//! (S6-105).

use crate::compat::Compat;
use crate::session::resource::{Dim, Resource};
use crate::session::snapshot::{INQUEUE, Snapshot};

#[derive(Debug, Clone)]
pub(crate) struct Overcommit {
    /// The cluster's total times the factor, less the used amounts.
    idle: Resource,
    /// The amounts promised to enqueued jobs.
    inqueue: Resource,
}

impl Overcommit {
    pub(crate) fn open(snapshot: &Snapshot, compat: Compat, factor: f64) -> Self {
        let factor = if factor < 1.0 { 1.2 } else { factor };
        let mut idle = snapshot.total.clone();
        idle.scale(factor);
        for node in &snapshot.nodes {
            idle.sub(&node.used);
        }
        let mut inqueue = Resource::default();
        for (index, job) in snapshot.live_jobs() {
            let Some(promised) = snapshot.promised(index, compat) else {
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

    /// The resources of which a job needs more than there is, beside the reserved amounts.
    pub(crate) fn lacking(&self, need: &Resource, kept: Option<&Resource>) -> Vec<Dim> {
        let mut sum = self.with(need);
        if let Some(kept) = kept {
            sum.add(kept);
        }
        sum.exceeded(&self.idle, need).collect()
    }

    /// The promised amounts with one more job.
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
