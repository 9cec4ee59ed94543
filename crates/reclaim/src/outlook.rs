//! The amount that a reclaim may still free.

use super::{
    inventory::{Inventory, Policy, Size},
    plan::{all_removals, size_of},
};
use jiff::Timestamp;

/// Fewer bytes than these do not stand out from concurrent writes.
const SEEN: i64 = 1 << 20;

/// An amount that a reclaim may free, in bytes or inodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gain {
    /// The sum of the known sizes.
    pub known: i64,
    /// Whether anything has a size that is not known, so that it may be more.
    pub uncertain: bool,
}

impl Gain {
    fn add(&mut self, amount: Option<i64>) {
        match amount {
            Some(amount) => self.known = self.known.saturating_add(amount.max(0)),
            None => self.uncertain = true,
        }
    }
}

/// The amount that a reclaim under way may still free, and since when it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outlook {
    /// In bytes.
    pub bytes: Gain,
    /// In inodes.
    pub inodes: Gain,
    /// When the reclaim began.
    pub began: Timestamp,
    /// When the runtime last answered or removed something.
    pub progress: Timestamp,
}

impl Outlook {
    /// The amount that may be freed is entirely unknown.
    pub const fn unknown(began: Timestamp) -> Self {
        let gain = Gain {
            known: 0,
            uncertain: true,
        };
        Self {
            bytes: gain,
            inodes: gain,
            began,
            progress: began,
        }
    }
}

/// Bytes and inodes that removals give back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Gains {
    pub(super) bytes: Gain,
    pub(super) inodes: Gain,
}

impl Gains {
    pub(super) fn add(&mut self, size: Option<Size>) {
        self.bytes.add(size.map(|size| size.bytes));
        self.inodes.add(size.and_then(|size| size.inodes));
    }

    /// A removal that failed does not free its counted size. That a size was unknown stays.
    pub(super) fn take_back(&mut self, size: Option<Size>) {
        let take = |gain: &mut Gain, amount: i64| {
            gain.known = gain.known.saturating_sub(amount.max(0)).max(0);
        };
        if let Some(size) = size {
            take(&mut self.bytes, size.bytes);
            take(&mut self.inodes, size.inodes.unwrap_or(0));
        }
    }

    /// Whether enough was removed that it is seen on the filesystem once it is back.
    pub(super) const fn is_worth_waiting(&self) -> bool {
        self.bytes.uncertain || self.bytes.known >= SEEN
    }

    /// The rest after this many bytes came back. The inodes that came back are not counted, so they stay.
    pub(super) fn without(mut self, bytes: i64) -> Self {
        self.bytes.known = self.bytes.known.saturating_sub(bytes.max(0)).max(0);
        self
    }

    /// Adds everything that may go by this inventory and was not tried.
    pub(super) fn extend(
        &mut self,
        now: Timestamp,
        inventory: Option<&Inventory>,
        policy: &Policy,
        tried: impl Fn(&str) -> bool,
    ) {
        let Some(inventory) = inventory else {
            // Without a list there may be something to remove, of unknown size.
            self.add(None);
            return;
        };
        for removal in all_removals(now, inventory.clone(), policy) {
            if !tried(removal.id()) {
                self.add(size_of(&removal, inventory));
            }
        }
    }
}
