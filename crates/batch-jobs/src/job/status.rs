//! The counts in a job's status, and how it is written.

use super::call::Call;
use evictd_batch_objects::{Compat, Difference, Job, JobCondition, JobPhase, JobStatus, TaskPod};
use evictd_pod::duration;
use evictd_pod::wire::PodPhase;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Sets all counts to zero.
pub(super) fn clear(status: &mut JobStatus) {
    status.pending = 0;
    status.running = 0;
    status.succeeded = 0;
    status.failed = 0;
    status.terminating = 0;
    status.unknown = 0;
    status.task_status_count.clear();
}

/// Counts a pod by its phase, in the whole and in its task (S6-042).
pub(super) fn count(status: &mut JobStatus, task: &str, pod: &TaskPod) {
    count_pods(status, task, &pod.status.phase, 1);
}

/// Counts so many pods of a task and phase.
pub(super) fn count_pods(status: &mut JobStatus, task: &str, phase: &PodPhase, pods: usize) {
    if pods == 0 {
        return;
    }
    let pods = i32::try_from(pods).unwrap_or(i32::MAX);
    let (counter, phase) = match phase {
        PodPhase::Pending => (&mut status.pending, "Pending"),
        PodPhase::Running => (&mut status.running, "Running"),
        PodPhase::Succeeded => (&mut status.succeeded, "Succeeded"),
        PodPhase::Failed => (&mut status.failed, "Failed"),
        _ => (&mut status.unknown, "Unknown"),
    };
    *counter = counter.saturating_add(pods);
    let tasks = &mut status.task_status_count;
    let of_task = tasks.entry(task.to_owned()).or_default();
    let of_phase = of_task.phase.entry(phase.to_owned()).or_default();
    *of_phase = of_phase.saturating_add(pods);
}

/// Writes down that the job is in its phase since now: the time, and a condition that replaces an older one of the same
/// phase (S6-030).
pub(super) fn stamp(status: &mut JobStatus, now: Timestamp) {
    // As Kubernetes writes times.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    status.state.last_transition_time = Some(now);
    let phase = status.state.phase.clone();
    status
        .conditions
        .retain(|condition| condition.status != phase);
    status.conditions.push(JobCondition {
        status: phase,
        last_transition_time: Some(now),
    });
}

/// Removes an empty map of plugins' objects that was not there before.
pub(super) fn forget_empty(job: &Job, status: &mut JobStatus) {
    let made = &mut status.controlled_resources;
    if made.as_ref().is_some_and(BTreeMap::is_empty) {
        made.clone_from(&job.status.controlled_resources);
    }
}

/// Whether two statuses say the same. For Volcano one that counts no pod at all never does.
pub(super) fn is_same(old: &JobStatus, new: &JobStatus, compat: Compat) -> bool {
    old == new
        && (compat.has(Difference::EqualStatusIsUnchanged) || !new.task_status_count.is_empty())
}

/// How long the job took until its phase changed last.
pub(super) fn running_duration(job: &Job, status: &JobStatus) -> Option<String> {
    let (since, until) = (
        job.metadata.creation_timestamp,
        status.state.last_transition_time,
    );
    Some(duration::format(until?.duration_since(since?.timestamp())))
}

/// The call that updates the stored status. Unknown stored fields stay.
pub(super) fn write(job: &Job, status: &JobStatus) -> Call {
    let (old, new) = (to_value(&job.status), to_value(status));
    let patch = json!({
        "metadata": {"resourceVersion": job.metadata.resource_version},
        "status": difference(&old, &new),
    });
    Call::WriteStatus { patch }
}

/// The status as JSON. The serialisation of plain fields and maps with text keys does not fail.
fn to_value(status: &JobStatus) -> Value {
    serde_json::to_value(status).unwrap_or_default()
}

/// The merge patch that makes `old` into `new`.
fn difference(old: &Value, new: &Value) -> Value {
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return new.clone();
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            Some(known) if known == value => {}
            Some(known) if known.is_object() && value.is_object() => {
                patch.insert(key.clone(), difference(known, value));
            }
            _ => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    // In a merge patch null removes a field.
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Value::Object(patch)
}

/// Whether the job has been initiated: plugins, claims and PodGroup were made once (S6-036).
pub(super) fn is_initiated(status: &JobStatus) -> bool {
    let phase = &status.state.phase;
    !(phase.is_empty() || *phase == JobPhase::Pending)
}
