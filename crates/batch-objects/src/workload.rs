//! Workloads, which Kubernetes' own pod groups come from.

use evictd_pod::wire::{Metadata, null_is_default};
use serde::Deserialize;

/// Names a queue: that of a plain pod, that of the pod groups of a namespace (S6-060), and that of a group of
/// `scheduling.k8s.io`.
pub const QUEUE_NAME: &str = "scheduling.volcano.sh/queue-name";

/// A scheduling.k8s.io/v1beta1 `Workload`. All that it says of the pods of its groups is in the groups, but for the queue.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// Namespace, name, and perhaps the queue of its groups.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
}

/// The queue that an object names in an annotation or a label; empty if it names none.
pub fn queue_of(metadata: &Metadata) -> &str {
    let annotation = metadata.annotations.get(QUEUE_NAME);
    let named = annotation.filter(|name| !name.is_empty());
    let named = named.or_else(|| metadata.labels.get(QUEUE_NAME));
    named.unwrap_or_default()
}
