//! The errors of a round, and the limits of a job's size.

/// The most bytes that a pod may have; an API server stores no larger object.
pub(super) const MOST_BYTES: usize = 3 << 19;
/// The most pods that Kubernetes is made for. A job with more would only use up the controller's memory.
pub(super) const MOST_PODS: i64 = 150_000;

/// Why a round failed. Volcano's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RoundError {
    /// Pods could not be ended.
    #[error("failed to kill {failed} pods of {total}")]
    Kill {
        /// So many.
        failed: usize,
        /// Of so many that were looked at.
        total: usize,
    },
    /// Pods could not be made.
    #[error("failed to create {failed} pods of {tasks}")]
    Create {
        /// So many.
        failed: usize,
        /// The number of tasks.
        tasks: usize,
    },
    /// Pods that are too many could not be deleted.
    #[error("failed to delete {failed} pods of {total}")]
    Delete {
        /// So many.
        failed: usize,
        /// Of so many.
        total: usize,
    },
    /// The job's queue does not exist.
    #[error("queue.scheduling.volcano.sh \"{0}\" not found")]
    Queue(String),
    /// The job wants more pods than a cluster can hold.
    #[error("the job wants {0} pods, and a cluster holds at most {most}", most = MOST_PODS)]
    TooLarge(i64),
    /// A pod of this task can be stored nowhere.
    #[error("a pod of task {task} would have {bytes} bytes or more, and an API server stores at most {most}", most = MOST_BYTES)]
    LargePod {
        /// The task's name.
        task: String,
        /// So many at least.
        bytes: usize,
    },
    /// The names of this task's pods fit into no object.
    #[error(
        "the names of all pods of task {0}, which plugins tell each pod, are longer than an object may be: it needs fewer replicas, or shorter names"
    )]
    Names(String),
    /// The job names a plugin that there is not.
    #[error("failed to get plugin {0}")]
    Plugin(String),
    /// The job names a claim that does not exist.
    #[error("pvc {0} is not found, the job will be in the Pending state until the PVC is created")]
    Claim(String),
    /// Any other call failed.
    #[error("{what}: {why}")]
    Call {
        /// The operation that failed.
        what: &'static str,
        /// How it was answered.
        why: String,
    },
}
