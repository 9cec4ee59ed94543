//! The job in question, by the name of a Job, a PodGroup, a pod, or the owner of pods.

use super::Unknown;
use super::what_if::WhatIf;
use crate::session::{Outcome, coscheduling, upstream_job_of};
use evictd_batch_jobs::{job::PendingObjects, pod_group::group_name};
use evictd_batch_objects::{Difference, GROUP_NAME, Job, PodGroup};
use evictd_pod::wire::{Metadata, Pod, full_name};
use std::sync::Arc;

/// The objects behind the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Job,
    PodGroup,
    Pod,
    Owner,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Job => "Job",
            Self::PodGroup => "PodGroup",
            Self::Pod => "Pod",
            Self::Owner => "Owner",
        }
    }
}

/// A job with its pod group.
pub(super) struct Subject {
    pub(super) kind: Kind,
    /// As requested.
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) job: Option<Arc<Job>>,
    /// `namespace/name` of its pod group, whether that is there or not.
    pub(super) group: String,
    pub(super) pending: PendingObjects,
    /// So many pods start at once or none.
    pub(super) min_member: i32,
}

impl Subject {
    /// Finds it.
    pub(super) fn find(
        what_if: &WhatIf<'_>,
        jobs: &[Arc<Job>],
        (namespace, name): (&str, &str),
    ) -> Result<Self, Unknown> {
        let is = |metadata: &Metadata| {
            metadata.namespace_or_default() == namespace && metadata.name == name
        };
        let at = full_name(namespace, name);
        let subject = |kind, job: Option<Arc<Job>>, group: String| Self {
            kind,
            name: name.to_owned(),
            namespace: namespace.to_owned(),
            job,
            group,
            pending: PendingObjects::default(),
            min_member: 0,
        };
        if let Some(job) = jobs.iter().find(|job| is(&job.metadata)) {
            let group = group_of(what_if, job);
            return Ok(subject(Kind::Job, Some(Arc::clone(job)), group).completed(what_if));
        }
        if let Some(group) = what_if.groups.get(&at) {
            let job = owner(jobs, group);
            return Ok(subject(Kind::PodGroup, job, at).completed(what_if));
        }
        if let Some((job, _)) = what_if
            .upstream
            .iter()
            .find(|(_, upstream)| is(&upstream.metadata))
        {
            return Ok(subject(Kind::PodGroup, None, job.to_string()).completed(what_if));
        }
        let pods = what_if.pods.iter();
        let pods = pods.filter(|(_, pod)| pod.metadata.namespace_or_default() == namespace);
        let exact = what_if.pods.get(&at).map(|pod| (Kind::Pod, pod));
        let found = exact.or_else(|| {
            let owned = pods.filter(|(_, pod)| is_owned(pod, name) || is_in_other(pod, name));
            // The first that waits, else the first.
            let owned = owned.min_by_key(|(_, pod)| !pod.spec.node_name.is_empty());
            owned.map(|(_, pod)| (Kind::Owner, pod))
        });
        let Some((kind, pod)) = found else {
            return Err(Unknown::of(what_if, jobs, (namespace, name)));
        };
        let group = match group_of_pod(pod) {
            Some(group) => group,
            None if what_if.compat.has(Difference::BarePods) => what_if.bare_job(pod).to_string(),
            None => full_name(namespace, &group_name(&pod.metadata)),
        };
        let job = what_if
            .groups
            .get(&group)
            .and_then(|group| owner(jobs, group));
        Ok(subject(kind, job, group).completed(what_if))
    }

    /// With the objects that the controllers would create.
    fn completed(mut self, what_if: &WhatIf<'_>) -> Self {
        let group = what_if.groups.get(&self.group);
        if let Some(job) = &self.job {
            self.pending = PendingObjects::of(job, group, &what_if.pods);
        }
        let group = group.or(self.pending.group.as_ref());
        self.min_member = group.map_or(0, |group| group.spec.min_member);
        if let Some(upstream) = what_if.upstream.get(&*self.group) {
            let gang = upstream.spec.scheduling_policy.gang.as_ref();
            self.min_member = gang.map_or(1, |gang| gang.min_count);
        }
        self
    }

    /// Its name in sentences.
    pub(super) fn title(&self) -> &str {
        let job = self.job.as_ref().map(|job| job.metadata.name.as_str());
        job.unwrap_or(&self.name)
    }

    /// Its pods, `namespace/name`.
    pub(super) fn pods<'w>(
        &self,
        what_if: &'w WhatIf<'_>,
    ) -> impl Iterator<Item = (&'w String, &'w Arc<Pod>)> {
        let group = self.group.clone();
        what_if
            .pods
            .iter()
            .filter(move |(_, pod)| is_in(what_if, pod, &group))
    }

    /// Whether a session starts it: pods are bound, and its gang of so many pods is complete.
    pub(super) fn is_started(&self, outcome: &Outcome, min_member: i32) -> bool {
        let Some(group) = outcome.pod_groups.get(&self.group) else {
            return false;
        };
        let count = |status: &str| group.tasks.get(status).copied().unwrap_or(0);
        let there = ["Binding", "Bound", "Running", "Succeeded"].map(count);
        let there = there.into_iter().fold(0, i32::saturating_add);
        count("Binding") > 0 && there >= min_member
    }
}

/// Whether a pod belongs to the group of this `namespace/name`, or is the job of this name itself.
pub(super) fn is_in(what_if: &WhatIf<'_>, pod: &Pod, group: &str) -> bool {
    if let Some(name) = named_group(pod) {
        let namespace = pod.metadata.namespace_or_default();
        let rest = group.strip_prefix(namespace);
        return rest.and_then(|rest| rest.strip_prefix('/')) == Some(name);
    }
    let job = upstream_job_of(pod).unwrap_or_else(|| what_if.bare_job(pod));
    *job == *group
}

/// The name of the group of Volcano's that a pod names.
fn named_group(pod: &Pod) -> Option<&str> {
    let group = pod.metadata.annotations.get(GROUP_NAME);
    group.filter(|group| !group.is_empty())
}

/// The group that a pod names, as its job is called; one of Kubernetes' own counts if it names no other.
pub(super) fn group_of_pod(pod: &Pod) -> Option<String> {
    let namespace = pod.metadata.namespace_or_default();
    named_group(pod)
        .map(|name| full_name(namespace, name))
        .or_else(|| upstream_job_of(pod).map(|job| job.to_string()))
}

/// The `namespace/name` of a job's group: that of its own name counts as well.
fn group_of(what_if: &WhatIf<'_>, job: &Job) -> String {
    let job_key = job.metadata.full_name();
    let usual = format!("{job_key}-{}", job.metadata.uid);
    // Older versions of Volcano named the group after the job.
    if !what_if.groups.contains_key(&usual) && what_if.groups.contains_key(&job_key) {
        return job_key;
    }
    usual
}

/// The job that a group belongs to.
fn owner(jobs: &[Arc<Job>], group: &PodGroup) -> Option<Arc<Job>> {
    let mut owners = group.metadata.owner_references.iter();
    let uid = &owners.find(|owner| owner.controller)?.uid;
    jobs.iter().find(|job| *job.metadata.uid == **uid).cloned()
}

/// Whether a pod names a group of this name that sessions do not read.
fn is_in_other(pod: &Pod, name: &str) -> bool {
    coscheduling::group_of(pod).is_some_and(|(_, group)| group == name)
}

/// Whether the controller of a pod has this name, or is a `ReplicaSet` of a Deployment of it.
fn is_owned(pod: &Pod, name: &str) -> bool {
    let mut owners = pod.metadata.owner_references.iter();
    owners.any(|owner| {
        let set = || {
            owner
                .name
                .rsplit_once('-')
                .map(|(deployment, _)| deployment)
        };
        owner.controller
            && (owner.name == name || (owner.kind == "ReplicaSet" && set() == Some(name)))
    })
}
