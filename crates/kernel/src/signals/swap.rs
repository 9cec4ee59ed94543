//! Swap space of the machine.

use serde::{Deserialize, Serialize};

/// Swap space, in bytes. Both are 0 if none is enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// All swap space.
    pub total: u64,
    /// Unused swap space.
    pub free: u64,
}
