//! An observation of one signal.

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

/// The part of the capacity, in thousandths, below which a signal is exhausted.
const EXHAUSTED: i128 = 1;

impl Observation {
    /// Whether there is anything to measure. A filesystem that makes inodes on demand reports none at all.
    pub const fn is_measured(&self) -> bool {
        self.capacity > 0
    }

    /// Whether the signal is practically exhausted: less than a thousandth of the capacity is available.
    pub fn is_exhausted(&self) -> bool {
        let left = i128::from(self.available) * 1000;
        self.is_measured() && left < i128::from(self.capacity) * EXHAUSTED
    }

    /// The part that is used.
    pub const fn taken(&self) -> i64 {
        self.capacity.saturating_sub(self.available)
    }
}
