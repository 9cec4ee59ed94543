//! States of a queue by actions (S6-064 to S6-069).

use evictd_batch_objects::QueueState;
use evictd_batch_objects::bus::Action;

/// The state that a queue comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Just(QueueState),
    /// `Closed`, or `Closing` while it has PodGroups, of whatever phase (S6-068).
    ClosedWhenEmpty,
}

impl Wanted {
    /// The state, with or without PodGroups.
    pub const fn state(self, empty: bool) -> QueueState {
        match self {
            Self::Just(state) => state,
            Self::ClosedWhenEmpty if empty => QueueState::Closed,
            Self::ClosedWhenEmpty => QueueState::Closing,
        }
    }
}

/// The procedure of an action on a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Procedure {
    /// Brings its state in line, and that with the queue above it.
    Sync(Wanted),
    /// Opens it, and those below that were closed because of it.
    Open,
    /// Closes it, and those below.
    Close,
}

/// The procedure of an action in this state.
pub fn procedure(state: QueueState, action: &Action) -> Procedure {
    use Action::{CloseQueue, OpenQueue};
    match (state, action) {
        (QueueState::Open | QueueState::Unknown, CloseQueue) => Procedure::Close,
        (QueueState::Closed | QueueState::Closing | QueueState::Unknown, OpenQueue) => {
            Procedure::Open
        }
        (QueueState::Closing, _) => Procedure::Sync(Wanted::ClosedWhenEmpty),
        (state, _) => Procedure::Sync(Wanted::Just(state)),
    }
}
