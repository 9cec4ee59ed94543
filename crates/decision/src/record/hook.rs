//! The outcome of the pre-kill hook.

use serde::{Deserialize, Serialize};

/// How the pre-kill hook of a termination went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Hook {
    /// How it ended.
    pub outcome: HookOutcome,
    /// How long it ran.
    pub milliseconds: u64,
    /// Its error or exit code; empty if it succeeded.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// The beginning of its output, at most 2 KiB. A program of the pod may have chosen it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// How a pre-kill hook ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HookOutcome {
    /// It ended in time.
    Succeeded,
    /// It could not be run, or reported a failure.
    Failed,
    /// Its budget was over.
    TimedOut,
    /// It was ended early, because the kill had no more time.
    Cut,
    /// An outcome that only another version knows.
    #[serde(other)]
    Unknown,
}

impl HookOutcome {
    /// The words for logs and tables.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::TimedOut => "took too long",
            Self::Cut => "was ended early, for lack of time",
            Self::Unknown => "ended in an unknown way",
        }
    }
}
