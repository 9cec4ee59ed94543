//! States of a queue by actions (S6-064 to S6-069).

use crate::bus::Action;

/// The state of a queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum State {
    /// Jobs are let in.
    Open,
    /// No jobs are let in, and none are there.
    Closed,
    /// No jobs are let in, and some are still there.
    Closing,
    /// It is not known.
    Unknown,
}

impl State {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Open, Self::Closed, Self::Closing, Self::Unknown];

    /// The state of this name; an empty one is `Open`, and any other text none (S6-067).
    pub fn of(name: &str) -> Option<Self> {
        let name = if name.is_empty() { "Open" } else { name };
        Self::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "Open",
            Self::Closed => "Closed",
            Self::Closing => "Closing",
            Self::Unknown => "Unknown",
        }
    }
}

/// The state that a queue comes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// This one.
    Just(State),
    /// `Closed`, or `Closing` while it has PodGroups, of whatever phase (S6-068).
    ClosedWhenEmpty,
}

impl Wanted {
    /// The state, with or without PodGroups.
    pub const fn state(self, empty: bool) -> State {
        match self {
            Self::Just(state) => state,
            Self::ClosedWhenEmpty if empty => State::Closed,
            Self::ClosedWhenEmpty => State::Closing,
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
pub fn procedure(state: State, action: &Action) -> Procedure {
    use Action::{CloseQueue, OpenQueue};
    match (state, action) {
        (State::Open | State::Unknown, CloseQueue) => Procedure::Close,
        (State::Closed | State::Closing | State::Unknown, OpenQueue) => Procedure::Open,
        (State::Closing, _) => Procedure::Sync(Wanted::ClosedWhenEmpty),
        (state, _) => Procedure::Sync(Wanted::Just(state)),
    }
}
