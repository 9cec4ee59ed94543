//! The identity of a pod.

use evictd_pod::wire::Metadata;
use std::borrow::Borrow;
use std::ops::Deref;
use std::sync::Arc;

/// The UID of a pod. A pod without a UID, as in a file, has `namespace/name`, as in the cluster and in the scheduler.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodId(Arc<str>);

impl PodId {
    /// The id of the pod with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self(metadata.key())
    }
}

impl Deref for PodId {
    type Target = Arc<str>;

    fn deref(&self) -> &Arc<str> {
        &self.0
    }
}

impl Borrow<str> for PodId {
    fn borrow(&self) -> &str {
        &self.0
    }
}
