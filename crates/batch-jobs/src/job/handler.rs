//! Turns changes in the cluster into requests to jobs (S6-047 to S6-050).

use super::belonging::{Belonging, is_marked, partition};
use super::info::JobInfo;
use super::request::Request;
use evictd_batch_objects::bus::Event;
use evictd_batch_objects::{Compat, Difference, Job, PodGroup, PodGroupPhase, TaskPod};
use evictd_pod::wire::PodPhase;

/// The request of a pod that appears; it is not yet in `info`, or it is already.
pub fn pod_added(info: &JobInfo, pod: &TaskPod, compat: Compat) -> Option<Request> {
    let belonging = Belonging::of(pod)?;
    let phase = &pod.status.phase;
    let (event, exit_code) = if is_marked(pod) {
        (Event::OutOfSync, 0)
    } else if compat.has(Difference::EndedWhileAway) && *phase == PodPhase::Failed {
        (Event::PodFailed, exit_code(pod))
    } else if compat.has(Difference::EndedWhileAway)
        && *phase == PodPhase::Succeeded
        && info.is_completed(belonging.task)
    {
        (Event::TaskCompleted, 0)
    } else {
        (Event::PodPending, 0)
    };
    Some(request(pod, belonging, event, exit_code))
}

/// The request of a pod that changed; `info` has its new state already. None if it is the same state.
pub(crate) fn pod_changed(info: &JobInfo, old: &TaskPod, new: &TaskPod) -> Option<Request> {
    let belonging = Belonging::of(new)?;
    if old.metadata.resource_version == new.metadata.resource_version {
        return None;
    }
    let (before, phase) = (&old.status.phase, &new.status.phase);
    let entered = before != phase;
    let event = match phase {
        _ if is_marked(new) => Event::OutOfSync,
        PodPhase::Failed if entered => Event::PodFailed,
        PodPhase::Succeeded if entered && info.is_completed(belonging.task) => Event::TaskCompleted,
        PodPhase::Running if entered => Event::PodRunning,
        PodPhase::Pending if entered => Event::PodPending,
        PodPhase::Running | PodPhase::Pending if info.is_failed(belonging.task) => {
            Event::TaskFailed
        }
        _ => Event::OutOfSync,
    };
    // The exit code is there with a pod that failed, also if it is marked.
    let exit_code = if *phase == PodPhase::Failed && entered {
        exit_code(new)
    } else {
        0
    };
    Some(request(new, belonging, event, exit_code))
}

/// The request of a deleted pod; it is still in `info` if it ever was.
pub(crate) fn pod_deleted(info: &JobInfo, pod: &TaskPod, compat: Compat) -> Option<Request> {
    let belonging = Belonging::of(pod)?;
    let surplus = compat.has(Difference::SurplusIsNotEvicted) && info.is_surplus(pod);
    let event = if is_marked(pod) || surplus || !info.has_pod(pod) {
        Event::OutOfSync
    } else {
        Event::PodEvicted
    };
    Some(request(pod, belonging, event, 0))
}

/// The request of a PodGroup that changed: to the job that owns it, else to one that has its name (S6-048).
pub(crate) fn group_changed(old: &PodGroup, new: &PodGroup) -> Option<Request> {
    if old.status.phase == new.status.phase {
        return None;
    }
    let mut owners = new.metadata.owner_references.iter();
    let owner = owners.rfind(|owner| owner.kind == "Job");
    let name = owner.map_or(&new.metadata.name, |owner| &owner.name);
    let event = match new.status.phase {
        PodGroupPhase::Unknown => Event::Unknown,
        _ => Event::None,
    };
    let namespace = new.metadata.namespace_or_default();
    Some(Request::of_job(namespace, name, event))
}

/// The request of a job that appears.
pub(crate) fn job_added(job: &Job) -> Request {
    let metadata = &job.metadata;
    Request::of_job(
        metadata.namespace_or_default(),
        &metadata.name,
        Event::OutOfSync,
    )
}

/// The request of a job that changed: only another spec or phase is news (S6-050).
pub(crate) fn job_changed(old: &Job, new: &Job) -> Option<Request> {
    let same_version = old.metadata.resource_version == new.metadata.resource_version;
    let same = old.spec == new.spec && old.status.state.phase == new.status.state.phase;
    (!same_version && !same).then(|| job_added(new))
}

/// The exit code of the first container, if it has ended.
fn exit_code(pod: &TaskPod) -> i32 {
    let first = pod.status.container_statuses.first();
    let ended = first.and_then(|status| status.state.terminated.as_ref());
    ended.map_or(0, |ended| ended.exit_code)
}

fn request(pod: &TaskPod, belonging: Belonging<'_>, event: Event, exit_code: i32) -> Request {
    Request {
        namespace: belonging.namespace.to_owned(),
        job_name: belonging.job.to_owned(),
        job_uid: belonging.uid.to_owned(),
        task_name: belonging.task.to_owned(),
        pod_name: pod.metadata.name.clone(),
        pod_uid: pod.metadata.uid.to_string(),
        partition_id: partition(pod).to_owned(),
        event,
        exit_code,
        action: None,
        job_version: belonging.version,
    }
}
