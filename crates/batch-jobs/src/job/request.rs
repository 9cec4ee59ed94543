//! The requests to a job, and their sources.

use evictd_batch_objects::bus::{Action, Event};

/// One request to a job (S6-014): an event of a pod, or an action.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Request {
    /// The job's namespace.
    pub namespace: String,
    /// The job's name.
    pub job_name: String,
    /// The UID of the job that was meant; empty if that is not known.
    pub job_uid: String,
    /// The task of the pod; empty if no pod is meant.
    pub task_name: String,
    /// The pod.
    pub pod_name: String,
    /// The pod's UID.
    pub pod_uid: String,
    /// The pod's partition.
    pub partition_id: String,
    /// The event.
    pub event: Event,
    /// The exit code of the pod's first container; 0 also if there is none.
    pub exit_code: i32,
    /// The action, if it is given; otherwise the policies decide (S6-051).
    pub action: Option<Action>,
    /// The version of the job that the pod was made for.
    pub job_version: i32,
}

impl Request {
    /// A request about the job as a whole.
    pub fn of_job(namespace: &str, name: &str, event: Event) -> Self {
        Self {
            namespace: namespace.to_owned(),
            job_name: name.to_owned(),
            job_uid: String::new(),
            task_name: String::new(),
            pod_name: String::new(),
            pod_uid: String::new(),
            partition_id: String::new(),
            event,
            exit_code: 0,
            action: None,
            job_version: 0,
        }
    }
}
