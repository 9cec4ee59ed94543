//! What the node has left of one signal.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One signal at one moment, in bytes, counts or shares of time as [`crate::Signal::counts_bytes`] and
/// [`crate::Signal::is_pressure`] say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Observation {
    /// The part that is not used.
    pub available: i64,
    /// All there is, used or not.
    pub capacity: i64,
    /// When it was measured. `None` if the source does not say; such an observation always counts as new (S1-033).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

impl Observation {
    /// The part that is used.
    pub const fn taken(&self) -> i64 {
        self.capacity.saturating_sub(self.available)
    }
}
