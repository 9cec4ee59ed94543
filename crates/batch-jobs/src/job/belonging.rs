//! The job of a pod, by the pod's owner, annotations and labels.

use super::names::{JOB_API, JOB_KIND, JOB_NAME, JOB_VERSION, OUT_OF_SYNC, PARTITION};
use evictd_batch_objects::{TASK_SPEC, TaskPod};

/// The job that a pod names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Belonging<'a> {
    /// Namespace of both.
    pub namespace: &'a str,
    /// The job's name.
    pub job: &'a str,
    /// The job's UID.
    pub uid: &'a str,
    /// The pod's task.
    pub task: &'a str,
    /// The job's version that it was made for.
    pub version: i32,
}

impl<'a> Belonging<'a> {
    /// Reads the pod's annotations; `None` if no job controls it, or an annotation is missing or no number (S6-047).
    pub fn of(pod: &'a TaskPod) -> Option<Self> {
        let metadata = &pod.metadata;
        let owner = metadata
            .owner_references
            .iter()
            .find(|owner| owner.controller)?;
        // A pod of another owner may have copied the annotations with its template.
        if owner.api_version != JOB_API || owner.kind != JOB_KIND {
            return None;
        }
        let annotation = |name| metadata.annotations.get(name);
        Some(Self {
            namespace: metadata.namespace_or_default(),
            job: annotation(JOB_NAME)?,
            uid: &owner.uid,
            task: annotation(TASK_SPEC)?,
            version: annotation(JOB_VERSION)?.parse().ok()?,
        })
    }
}

/// Whether a controller has decided to kill the pod, so that its end is no event (S6-035).
pub(crate) fn is_marked(pod: &TaskPod) -> bool {
    pod.metadata.annotations.contains_key(OUT_OF_SYNC)
}

/// The pod's partition; empty if it has none.
pub(super) fn partition(pod: &TaskPod) -> &str {
    pod.metadata.labels.get(PARTITION).unwrap_or_default()
}
