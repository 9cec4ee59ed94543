//! The mark on a pod that is being terminated. After a crash the termination is resumed and counted exactly once.

use super::info::{Belonging, JobInfo, partition};
use super::names::ENDING;
use super::request::Request;
use crate::bus::{Action, Event};
use crate::wire::{Job, JobStatus, TaskPod};
use std::collections::BTreeMap;

/// The text of a mark: the action, and the job's version and number of restarts before it.
pub(super) fn text(action: &Action, before: &JobStatus) -> String {
    let (version, retries) = (before.version, before.retry_count);
    format!("{}/{version}/{retries}", action.as_str())
}

/// Whether the request resumed terminated pods that need it no longer. The write of an earlier process may be seen
/// late.
pub(super) fn is_over(info: &JobInfo, job: &Job, request: &Request) -> bool {
    let resumes = request.event == Event::OutOfSync && request.action.is_some();
    let mut pods = info.pods.values().flat_map(BTreeMap::values);
    resumes && !pods.any(|pod| resumed(job, pod).as_ref() == Some(request))
}

/// The request that resumes the termination marked on the pod. `None` if the job's status records it already: the
/// status is written before the first pod is deleted, and changes the version or the number of restarts.
pub(super) fn resumed(job: &Job, pod: &TaskPod) -> Option<Request> {
    let mark = pod.metadata.annotations.get(ENDING)?;
    let (action, _) = mark.split_once('/')?;
    let action = Action::of(action);
    let belonging = Belonging::of(pod)?;
    let begun = mark == text(&action, &job.status)
        && *belonging.uid == *job.metadata.uid
        && pod.metadata.deletion_timestamp.is_none();
    if !begun {
        return None;
    }
    let (namespace, name) = (belonging.namespace, belonging.job);
    let mut request = Request::of_job(namespace, name, Event::OutOfSync);
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
    Some(request)
}
