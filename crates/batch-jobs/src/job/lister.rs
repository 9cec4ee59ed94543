//! The objects of the cluster that a job reads.

use evictd_batch_objects::{PodGroup, TaskPod};
use std::sync::Arc;

/// Looks things up in whatever the caller knows of the cluster. Nothing here waits.
pub trait Lister {
    /// Whether there is such a queue.
    fn has_queue(&self, name: &str) -> bool;

    /// The value of a PriorityClass.
    fn priority(&self, class: &str) -> Option<i32>;

    /// Whether there is such a PersistentVolumeClaim.
    fn has_claim(&self, namespace: &str, name: &str) -> bool;

    /// A PodGroup.
    fn pod_group(&self, namespace: &str, name: &str) -> Option<Arc<PodGroup>>;

    /// A pod that the job's own list lacks.
    fn pod(&self, namespace: &str, name: &str) -> Option<Arc<TaskPod>>;
}
