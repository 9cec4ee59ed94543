//! Plugin overcommit: enqueues a little more than there is room for, so that freed room is used at once (S6-105).

use super::shares::objection;
use super::{Plugin, Reserved, Tiers, Vote};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId};
use crate::session::snapshot::resource::{Dim, Resource};
use evictd_batch_objects::{Compat, Difference, PodGroupPhase};

#[derive(Debug, Clone)]
pub(super) struct Overcommit {
    /// The cluster's total times the factor, less the used amounts.
    idle: Resource,
    /// The amounts promised to enqueued jobs.
    inqueue: Resource,
    /// Whether a job is enqueued that reclaim will make room for.
    enqueues_reclaimers: bool,
}

impl Overcommit {
    pub(super) fn open(snapshot: &Snapshot, compat: Compat, factor: f64) -> Self {
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
            // Of an enqueued job the whole minResources count, whatever it holds.
            match &job.min_resources {
                Some(min) if job.phase == PodGroupPhase::Inqueue => {
                    inqueue.add(&job.without_gated(min));
                }
                _ => inqueue.add(&promised),
            }
        }
        Self {
            idle,
            inqueue,
            enqueues_reclaimers: compat.has(Difference::EnqueueReclaimers),
        }
    }

    /// The resources of which a job needs more than there is, beside the reserved amounts.
    fn lacking(&self, need: &Resource, reserved: &Reserved) -> Vec<Dim> {
        let mut sum = self.with(need);
        if let Some(kept) = &reserved.of_cluster {
            sum.add(kept);
        }
        if let Some(returned) = &reserved.returned {
            sum.sub(returned);
        }
        sum.exceeded(&self.idle, need).collect()
    }

    /// The promised amounts with one more job.
    fn with(&self, need: &Resource) -> Resource {
        let mut sum = self.inqueue.clone();
        sum.add(need);
        sum
    }
}

impl Plugin for Overcommit {
    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        request: &Resource,
        reserved: &Reserved,
    ) -> Result<Vote, String> {
        let lacking = self.lacking(request, reserved);
        if lacking.is_empty() {
            return Ok(Vote::Permit);
        }
        // Reclaim will make room for it.
        if self.enqueues_reclaimers && tiers.may_reclaim(job, request) {
            return Ok(Vote::Abstain);
        }
        Err(objection(
            tiers.snapshot,
            "resource in cluster is overused",
            "overused",
            lacking,
        ))
    }

    fn job_enqueued(&mut self, _: QueueId, request: &Resource) {
        self.inqueue.add(request);
    }

    fn cluster_limit(&self, request: &Resource) -> Option<(Resource, &Resource)> {
        Some((self.with(request), &self.idle))
    }
}
