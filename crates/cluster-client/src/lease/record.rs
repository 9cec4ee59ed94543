//! The holder of a Lease, as its spec records it.

use serde::{Deserialize, Deserializer, Serialize};
use std::time::Duration;

/// The part of `spec` of a Lease that an election reads and writes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Record {
    /// Empty if the Lease has no holder.
    #[serde(rename = "holderIdentity", deserialize_with = "null_is_default")]
    pub holder: String,
    /// How long it counts after it was renewed.
    #[serde(rename = "leaseDurationSeconds", deserialize_with = "null_is_default")]
    pub duration_seconds: i32,
    /// When its holder got it, as text, because times are only passed on.
    pub acquire_time: Option<String>,
    /// When it was renewed last.
    pub renew_time: Option<String>,
    /// How often it has changed its holder.
    #[serde(rename = "leaseTransitions", deserialize_with = "null_is_default")]
    pub transitions: i32,
}

fn null_is_default<'de, T: Default + Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

impl Record {
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.duration_seconds).unwrap_or(0))
    }
}
