//! Kubernetes' own PodGroups and their Workloads. A group is a job as soon as a pod of this scheduler names it; groups
//! of other schedulers' pods are not.

use super::Cache;
use crate::session::objects::key;
use crate::session::upstream::upstream_job;
use crate::wire::{PodGroupStatus, Workload, queue_of};
use evictd_pod::wire::{Metadata, PodGroup, Time};

impl Cache {
    /// A group came or changed.
    pub fn upstream_group(&mut self, wire: &PodGroup) {
        self.stale_jobs = true;
        let at = self.job(upstream_job(&wire.metadata));
        let job = &mut self.snapshot.jobs[at];
        job.upstream.get_or_insert_default().read(wire);
        job.has_group = true;
        job.class_name = wire.spec.priority_class_name.as_str().into();
        job.created = wire.metadata.creation_timestamp.map(Time::timestamp);
        let gang = wire.spec.scheduling_policy.gang.as_ref();
        job.min_member = gang.map_or(1, |gang| gang.min_count);
    }

    /// A group is deleted. Its pods wait for another one.
    pub fn remove_upstream_group(&mut self, metadata: &Metadata) {
        let Some(at) = self.jobs.get(&upstream_job(metadata)).copied() else {
            return;
        };
        self.stale_jobs = true;
        let job = &mut self.snapshot.jobs[at];
        job.has_group = false;
        job.begin(PodGroupStatus::default());
        self.drop_unused(at);
    }

    /// A workload came or changed.
    pub fn workload(&mut self, wire: &Workload) {
        self.stale_jobs = true;
        let name = key(&wire.metadata);
        let queue = queue_of(&wire.metadata).into();
        self.workloads.insert((&*name).into(), queue);
    }

    /// A workload is deleted.
    pub fn remove_workload(&mut self, metadata: &Metadata) {
        self.stale_jobs = true;
        self.workloads.remove(&*key(metadata));
    }
}
