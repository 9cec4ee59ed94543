//! A user's command for a job or a queue.

use evictd_pod::wire::{Metadata, OwnerReference, null_is_default};
use serde::{Deserialize, Serialize};

/// A bus.volcano.sh/v1alpha1 `Command`.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Command {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// `AbortJob`, `OpenQueue`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The job or queue.
    #[serde(rename = "target")]
    pub target_object: Option<OwnerReference>,
    /// Why, in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// Why, for people.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}
