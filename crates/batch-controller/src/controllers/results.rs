//! Results that tasks send back to the engine.

use evictd_batch_jobs::job::Answer;
use evictd_batch_jobs::queue;
use evictd_batch_objects::{Command, TaskPod};
use std::sync::Arc;

#[derive(Debug)]
pub(super) enum TaskResult {
    /// The calls of a job's step have ended.
    JobCalls {
        /// `namespace/name` of the job.
        job: String,
        answers: Vec<Answer>,
        /// The pod group that these calls have deleted.
        deleted_pod_group: Option<String>,
    },
    /// A pod of a job was read; `None` if there is none of that name.
    PodRead {
        /// `namespace/name` of the job.
        job: String,
        pod: String,
        result: Result<Option<Arc<TaskPod>>, ()>,
    },
    /// The call of a queue's step has ended.
    QueueCall(queue::Answer),
    /// This process has deleted a Command, and may act on it.
    CommandDeleted(Arc<Command>),
}
