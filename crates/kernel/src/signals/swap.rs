//! Swap space of the machine.

use serde::{Deserialize, Serialize};

/// Swap space, in bytes. Both are 0 if none is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// All swap space of the machine.
    pub total: u64,
    /// The part of it that is not used.
    pub free: u64,
}
