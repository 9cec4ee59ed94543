//! A pod to be created. It is built only when it is sent, from data that all pods of its job share: a job may have tens of
//! thousands of pods, each with the names of all others in it.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// Builds the pods of a job.
pub(super) trait Recipe: Send + Sync {
    fn name(&self, task: usize, index: i32) -> String;
    fn least_bytes(&self, task: usize) -> usize;
    fn pod(&self, task: usize, index: i32) -> Value;
}

/// A pod that is to be made.
#[derive(Clone)]
pub struct Creation {
    shared: Arc<dyn Recipe>,
    /// Its place among the tasks of the job.
    task: usize,
    index: i32,
}

impl Creation {
    pub(super) fn new(shared: Arc<dyn Recipe>, task: usize, index: i32) -> Self {
        Self {
            shared,
            task,
            index,
        }
    }

    /// Its name.
    pub fn name(&self) -> String {
        self.shared.name(self.task, self.index)
    }

    /// So many bytes the pod has at least, and it has not many more.
    pub fn least_bytes(&self) -> usize {
        self.shared.least_bytes(self.task)
    }

    /// The whole object.
    pub fn pod(&self) -> Value {
        self.shared.pod(self.task, self.index)
    }
}

impl fmt::Debug for Creation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

impl PartialEq for Creation {
    fn eq(&self, other: &Self) -> bool {
        self.pod() == other.pod()
    }
}
