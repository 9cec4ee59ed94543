//! What comes back to the engine from the tasks that it has started.

use evictd_batch::job::Answer;
use evictd_batch::queue;
use evictd_batch::wire::{Command, TaskPod};
use std::sync::Arc;

/// What comes back from tasks.
#[derive(Debug)]
pub(super) enum Back {
    /// The answers to the calls of a job's round; of a PodGroup that was deleted, its name.
    Answers(String, Vec<Answer>, Option<String>),
    /// What was read of a pod of a job.
    Read(String, String, Result<Option<Arc<TaskPod>>, ()>),
    /// The answer to the call of a queue's round.
    Queue(queue::Answer),
    /// A Command that was deleted.
    Command(Arc<Command>),
}
