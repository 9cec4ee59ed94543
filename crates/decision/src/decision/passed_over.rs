//! The pod that a decision passes over although it is the one that an operator looks for.

use super::Spared;
use evictd_pod::Quantity;
use serde::{Deserialize, Serialize};

/// A pod that is never evicted, and the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PassedOver {
    /// `namespace/name`.
    pub pod: String,
    /// Its UID, if it exceeds a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Its usage of the resource, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<Quantity>,
    /// Why it is never evicted, in a few words.
    pub because: String,
    /// One sentence without its full stop.
    pub sentence: String,
}

impl Spared {
    /// Whether the pod is never evicted, as opposed to not at present.
    pub const fn lasts(self) -> bool {
        matches!(self, Self::Critical(_) | Self::Protected | Self::Never)
    }
}
