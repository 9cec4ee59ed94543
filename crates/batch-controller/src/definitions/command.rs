//! A wish of a user about a job or a queue (S6-012).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A wish about a job or a queue. It is deleted before it is carried out, so that it is carried out once at most.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    /// What is to be done: `AbortJob`, `ResumeJob`, `RestartJob`, `TerminateJob`, `CompleteJob`, `OpenQueue`, `CloseQueue`, ...
    pub action: Option<String>,
    /// The job or queue that it is about.
    #[serde(rename = "target")]
    pub target: Option<Target>,
    /// Why, in a word.
    pub reason: Option<String>,
    /// Why, for people.
    pub message: Option<String>,
}

/// A job or a queue, as an owner reference names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct Target {
    /// batch.volcano.sh/v1alpha1, scheduling.volcano.sh/v1beta1.
    pub api_version: String,
    /// Job, Queue.
    pub kind: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Whether it is the one that manages the object.
    pub controller: Option<bool>,
    /// Whether it cannot be deleted before the object.
    pub block_owner_deletion: Option<bool>,
}
