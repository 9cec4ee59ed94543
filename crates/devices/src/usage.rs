//! How much of a device claims use.

use crate::capacity::{Amounts, add};
use evictd_pod::wire::AllocatedDevice;

/// The use of one device by the allocated claims.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    /// How many claims have it alone.
    dedicated: usize,
    /// How many shares of it claims have.
    shares: usize,
    /// The capacities of these shares.
    pub(crate) consumed: Amounts,
}

impl Usage {
    pub(crate) fn count(&mut self, device: &AllocatedDevice, more: bool) {
        let counter = if device.share_id.is_some() {
            add(
                &mut self.consumed,
                &device.consumed_capacity,
                if more { 1 } else { -1 },
            );
            &mut self.shares
        } else {
            &mut self.dedicated
        };
        *counter = if more {
            *counter + 1
        } else {
            counter.saturating_sub(1)
        };
    }

    pub(crate) const fn is_none(&self) -> bool {
        self.dedicated == 0 && self.shares == 0
    }

    pub(crate) const fn is_dedicated(&self) -> bool {
        self.dedicated > 0
    }

    pub(crate) const fn is_shared(&self) -> bool {
        self.shares > 0
    }
}
