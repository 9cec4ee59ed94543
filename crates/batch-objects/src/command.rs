//! A command to a job or a queue (S6-012).

use super::schema::ObjectMeta;
use evictd_pod::wire::{Metadata, OwnerReference, null_is_default};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A bus.volcano.sh/v1alpha1 `Command`: a request to act on a job or a queue. The controllers delete a command before they
/// act on it, so that they act at most once.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct Command {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The action: `AbortJob`, `ResumeJob`, `RestartJob`, `TerminateJob`, `CompleteJob`, `OpenQueue`, `CloseQueue`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The job or queue.
    #[serde(rename = "target")]
    #[schemars(with = "Option<Target>")]
    pub target_object: Option<OwnerReference>,
    /// The reason in a word.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// The reason in a sentence.
    #[serde(deserialize_with = "null_is_default")]
    pub message: String,
}

/// A job or a queue, in the form of an owner reference.
#[derive(JsonSchema)]
#[schemars(rename_all = "camelCase", extend("x-kubernetes-map-type" = "atomic"))]
#[expect(dead_code, reason = "read as an `OwnerReference`")]
struct Target {
    /// batch.volcano.sh/v1alpha1 or scheduling.volcano.sh/v1beta1.
    api_version: String,
    /// Job or Queue.
    kind: String,
    /// The name of the object.
    name: String,
    /// The UID of the object.
    uid: String,
    /// Not read.
    controller: Option<bool>,
    /// Not read.
    block_owner_deletion: Option<bool>,
}
