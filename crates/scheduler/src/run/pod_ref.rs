//! Which pod is meant.

use evictd_cluster_client::events::ObjectReference;
use evictd_pod::wire::{self, Shared};
use std::fmt;
use std::sync::Arc;

/// A pod by its name and UID: a pod of the same name that was made later is another one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its namespace, shared with the pod's metadata: a hundred thousand pods may wait for a write.
    pub namespace: Shared<String>,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: Arc<str>,
}

impl PodRef {
    /// The pod with this metadata.
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
