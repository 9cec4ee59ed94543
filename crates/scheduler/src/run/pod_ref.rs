//! A reference to a pod.

use evictd_cluster_client::events::ObjectReference;
use evictd_pod::wire::{self, Shared};
use std::fmt;
use std::sync::Arc;

/// Name and UID of a pod. The UID distinguishes it from a later pod of the same name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodRef {
    /// Shared with the pod's metadata, because a hundred thousand pods may wait for a write.
    pub(crate) namespace: Shared<String>,
    pub(crate) name: String,
    pub(crate) uid: Arc<str>,
}

impl PodRef {
    pub(super) fn of(metadata: &wire::Metadata) -> Self {
        Self {
            namespace: if metadata.namespace.is_empty() {
                metadata.namespace_or_default().into()
            } else {
                metadata.namespace.clone()
            },
            name: metadata.name.clone(),
            uid: Arc::clone(&metadata.uid),
        }
    }

    pub(super) fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: self.namespace.to_string(),
            name: self.name.clone(),
            uid: self.uid.to_string(),
        }
    }
}

/// `namespace/name`
impl fmt::Display for PodRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}
