//! A queue as its controller sees it, and the other objects that the controller reads.

use evictd_batch_objects::{OpenEnum, QueueState};
use evictd_pod::wire::null_is_default;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The queue above all others.
pub(crate) const ROOT: &str = "root";
/// The annotation of a queue that was closed because the one above it was (S6-072).
pub(crate) const CLOSED_BY_PARENT: &str = "volcano.sh/closed-by-parent";

/// The fields of a Queue that its controller reads.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct View {
    /// Name and annotations.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: ViewMetadata,
    /// The queue above it.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: ViewSpec,
    /// Its state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: ViewStatus,
}

/// `metadata` of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ViewMetadata {
    /// Its name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Its annotations; a patch has to know whether there are any.
    pub annotations: Option<BTreeMap<String, String>>,
}

/// `spec` of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ViewSpec {
    /// The queue above it; empty until the controller has set it to `root`.
    #[serde(deserialize_with = "null_is_default")]
    pub parent: String,
}

/// `status` of a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ViewStatus {
    /// The state; empty before the controller has seen the queue.
    #[serde(deserialize_with = "null_is_default")]
    pub state: OpenEnum<QueueState>,
}

impl View {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// Whether it is closed or about to be.
    pub fn is_closing(&self) -> bool {
        self.status.state.is_closing()
    }

    /// Whether it was closed because the one above it was.
    pub fn is_closed_by_parent(&self) -> bool {
        self.annotation(CLOSED_BY_PARENT) == Some("true")
    }

    /// An annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        let annotations = self.metadata.annotations.as_ref()?;
        annotations.get(key).map(String::as_str)
    }
}

/// Looks things up in whatever the caller knows of the cluster.
pub trait Lister {
    /// A queue.
    fn queue(&self, name: &str) -> Option<Arc<View>>;

    /// The queues right below this one, by name.
    fn children(&self, name: &str) -> Vec<Arc<View>>;

    /// Whether there is such a PodGroup, `namespace/name`.
    fn has_group(&self, key: &str) -> bool;
}
