//! Swap space of the machine.

use serde::{Deserialize, Serialize};

/// Swap space, in bytes. Both are 0 where none is switched on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Swap {
    /// All swap space.
    pub total: u64,
    /// What of it is unused.
    pub free: u64,
}
