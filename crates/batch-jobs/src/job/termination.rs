//! The mark on a pod that is being terminated. After a crash the termination is resumed and counted exactly once.

use super::belonging::{Belonging, partition};
use super::names::ENDING;
use super::request::Request;
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Job, JobStatus, TaskPod};
use std::collections::BTreeMap;

/// The text of a mark: the action, and the job's version and number of restarts before it.
pub(super) fn text(action: &Action, before: &JobStatus) -> String {
    format!("{}/{}", action.as_str(), self::before(before))
}

/// The job's version and number of restarts when the termination was marked.
fn before(status: &JobStatus) -> String {
    format!("{}/{}", status.version, status.retry_count)
}

/// The terminations that are marked on the pods of a job, so that an event of one pod does not look at all others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Terminations(BTreeMap<Begun, BTreeMap<Request, usize>>);

/// The job that a termination began with: its UID, and its version and number of restarts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    uid: String,
    before: String,
}

impl Begun {
    fn of(job: &Job) -> Self {
        Self {
            uid: job.metadata.uid.to_string(),
            before: before(&job.status),
        }
    }
}

impl Terminations {
    pub(super) fn add(&mut self, pod: &TaskPod) {
        if let Some((begun, request)) = marked(pod) {
            let requests = self.0.entry(begun).or_default();
            *requests.entry(request).or_default() += 1;
        }
    }

    /// Takes out a pod that was added in the same state.
    pub(super) fn remove(&mut self, pod: &TaskPod) {
        let Some((begun, request)) = marked(pod) else {
            return;
        };
        let Some(requests) = self.0.get_mut(&begun) else {
            return;
        };
        if let Some(pods) = requests.get_mut(&request) {
            *pods -= 1;
            if *pods == 0 {
                requests.remove(&request);
            }
        }
        if requests.is_empty() {
            self.0.remove(&begun);
        }
    }

    /// The requests that resume the terminations that the job's status does not record yet.
    pub(super) fn unrecorded(&self, job: &Job) -> impl Iterator<Item = &Request> {
        self.0
            .get(&Begun::of(job))
            .into_iter()
            .flat_map(BTreeMap::keys)
    }

    /// Whether the request resumed terminated pods that need it no longer. The write of an earlier process may be seen
    /// late.
    pub(super) fn are_over(&self, job: &Job, request: &Request) -> bool {
        let resumes = request.event == Event::OutOfSync && request.action.is_some();
        let requests = self.0.get(&Begun::of(job));
        resumes && !requests.is_some_and(|requests| requests.contains_key(request))
    }
}

/// Whether a termination is marked on the pod and the job's status does not record it yet: the status is written before
/// the first pod is deleted, and changes the version or the number of restarts.
pub(super) fn is_unrecorded(job: &Job, pod: &TaskPod) -> bool {
    marked(pod).is_some_and(|(begun, _)| begun == Begun::of(job))
}

/// The termination that is marked on the pod, and the request that resumes it. `None` if the pod is being deleted.
fn marked(pod: &TaskPod) -> Option<(Begun, Request)> {
    let mark = pod.metadata.annotations.get(ENDING)?;
    let (name, before) = mark.split_once('/')?;
    let action = Action::of(name);
    let belonging = Belonging::of(pod)?;
    if action.as_str() != name || pod.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let (namespace, job) = (belonging.namespace, belonging.job);
    let mut request = Request::of_job(namespace, job, Event::OutOfSync);
    match action {
        Action::RestartTask => belonging.task.clone_into(&mut request.task_name),
        Action::RestartPod => {
            belonging.task.clone_into(&mut request.task_name);
            request.pod_name.clone_from(&pod.metadata.name);
        }
        Action::RestartPartition => {
            belonging.task.clone_into(&mut request.task_name);
            partition(pod).clone_into(&mut request.partition_id);
        }
        _ => {}
    }
    request.action = Some(action);
    let begun = Begun {
        uid: belonging.uid.to_owned(),
        before: before.to_owned(),
    };
    Some((begun, request))
}
