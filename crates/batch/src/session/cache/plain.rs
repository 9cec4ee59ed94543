//! Pods of no group as jobs of their own.

use super::Cache;
use crate::session::plain::plain_job;
use crate::session::snapshot::RUNNING;
use crate::wire::{PodGroupStatus, queue_of};
use evictd_pod::wire::{Pod, Time};

impl Cache {
    /// The job of a pod of no group, if such pods are jobs.
    pub(super) fn plain_job_of(&mut self, pod: &Pod) -> Option<usize> {
        if !self.setting.plain_pods || pod.spec.scheduling_group.is_some() {
            return None;
        }
        self.stale_jobs = true;
        let at = self.job(plain_job(&pod.metadata));
        let job = &mut self.snapshot.jobs[at];
        job.is_plain = true;
        job.has_group = true;
        job.queue_name = queue_of(&pod.metadata).into();
        job.class_name = pod.spec.priority_class_name.as_str().into();
        job.created = pod.metadata.creation_timestamp.map(Time::timestamp);
        job.min_member = 1;
        if !pod.spec.node_name.is_empty() {
            job.begin(PodGroupStatus {
                phase: RUNNING.to_owned(),
                ..PodGroupStatus::default()
            });
        }
        Some(at)
    }

    /// The status that earlier sessions gave a pending bare pod, if it is still the same pod.
    pub(super) fn status_of_plain(&self, pod: &Pod) -> Option<PodGroupStatus> {
        let waits = self.setting.plain_pods
            && pod.spec.scheduler_name == self.setting.scheduler
            && pod.spec.node_name.is_empty();
        if !waits {
            return None;
        }
        let at = self.jobs.get(&*plain_job(&pod.metadata))?;
        let job = &self.snapshot.jobs[*at];
        let mut tasks = job.tasks.iter().map(|task| &self.snapshot.tasks[*task]);
        let same = tasks.any(|task| *task.uid == *pod.metadata.uid);
        same.then(|| job.before.clone())
    }
}
