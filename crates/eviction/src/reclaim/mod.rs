//! Node-level reclaim: which dead containers and unused images go before a pod is evicted (S1-037 to S1-041).
//!
//! A [`Reclaiming`] is told what happened ([`Event`]) and says what to do next ([`Command`]); one command is under way at
//! a time:
//!
//! ```text
//! List ── Remove ── Remove ── .. ── Wait ── List ── Remove ── Wait ── List ── .. ── Done
//!         dead containers            │              one image
//!                                    until enough is free, the removed bytes are back, or two seconds have passed
//! ```
//!
//! Runtimes delete in the background: what was removed is back on the filesystem some time after the answer (users #15).
//! Therefore each removal of an image is waited for before the next one is chosen, so that no more goes than is needed,
//! and the inventory is listed again, because a container may have begun to use the next one.

mod cold;
mod inventory;
mod plan;
mod result;
#[cfg(test)]
mod tests;
mod uses;

pub use cold::{ColdShare, cold_shares};
pub use inventory::{Container, Image, Inventory, Policy, Sandbox};
pub use plan::{Removal, all_removals};
pub use result::Reclaimed;
pub use uses::ImageUses;

use jiff::{SignedDuration, Timestamp};
use plan::Phase;
use std::collections::{BTreeSet, VecDeque};

/// How long one removal may take to show on the filesystem.
const SETTLING: SignedDuration = SignedDuration::from_secs(2);
/// How long all of them together may take after the last one.
const LAST_SETTLING: SignedDuration = SignedDuration::from_secs(5);
/// A runtime that lists and removes nothing for this long is not waited for any more.
pub const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// Of failed removals, so many are told.
const FAILURES_TOLD: usize = 3;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The answer to [`Command::List`].
    Listed(Inventory),
    /// What [`Command::Remove`] named is gone.
    Removed,
    /// The last command failed, for this reason.
    Failed(String),
    /// What the filesystem has left; to be told in every cycle, also while a command is under way.
    Observed {
        /// When the filesystem was asked.
        time: Timestamp,
        /// Bytes available; `None` if unknown.
        available: Option<i64>,
        /// Whether no threshold is met any more, minimum reclaim included.
        relieved: bool,
    },
}

/// What to do next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// List everything that the runtime holds.
    List,
    /// Remove this.
    Remove(Removal),
    /// Nothing but observe the filesystem.
    Wait,
    /// It is over.
    Done(Reclaimed),
}

/// What the machine waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Listing,
    Removing(Removal),
    /// Until so many bytes are available, or this time.
    Settling {
        until: Timestamp,
        goal: Option<i64>,
        last: bool,
    },
    Over,
}

/// A reclaim under way.
#[derive(Debug, Clone)]
pub struct Reclaiming {
    policy: Policy,
    phase: Phase,
    state: State,
    queue: VecDeque<Removal>,
    /// Ids that were removed, or could not be: they are not tried again.
    tried: BTreeSet<String>,
    /// When the runtime last did something.
    progress: Timestamp,
    /// What was available at the start, after the containers, and last.
    start: Option<i64>,
    before_images: Option<i64>,
    available: Option<i64>,
    /// The sum of what was removed and has a size.
    expected: i64,
    result: Reclaimed,
}

impl Reclaiming {
    /// Begins with [`Command::List`]. `available` is what the filesystem has left now, in bytes.
    pub fn start(now: Timestamp, policy: Policy, available: Option<i64>) -> (Self, Command) {
        let machine = Self {
            phase: if policy.dead_containers {
                Phase::Containers
            } else {
                Phase::Images
            },
            policy,
            state: State::Listing,
            queue: VecDeque::new(),
            tried: BTreeSet::new(),
            progress: now,
            start: available,
            before_images: available,
            available,
            expected: 0,
            result: Reclaimed::default(),
        };
        (machine, Command::List)
    }

    /// Applies an event; `None` if the last command goes on.
    pub fn on_event(&mut self, now: Timestamp, event: Event) -> Option<Command> {
        match (event, self.state.clone()) {
            (_, State::Over) => None,
            (
                Event::Observed {
                    time,
                    available,
                    relieved,
                },
                state,
            ) => self.observed(now, &state, (time, available, relieved)),
            (Event::Listed(inventory), State::Listing) => {
                self.progress = now;
                Some(self.listed(now, inventory))
            }
            (Event::Failed(why), State::Listing) => {
                self.result.problems.push(why);
                Some(self.over())
            }
            (Event::Removed, State::Removing(removal)) => {
                self.progress = now;
                Some(self.removed(now, &removal))
            }
            (Event::Failed(why), State::Removing(removal)) => {
                self.result.failed += 1;
                if self.result.problems.len() < FAILURES_TOLD {
                    self.result.problems.push(format!("{removal}: {why}"));
                }
                Some(match self.phase {
                    Phase::Images => self.list(),
                    Phase::Containers | Phase::Sandboxes => self.next(now),
                })
            }
            // An answer that nobody waits for any more.
            (Event::Listed(_) | Event::Removed | Event::Failed(_), _) => None,
        }
    }

    fn observed(
        &mut self,
        now: Timestamp,
        state: &State,
        (time, available, relieved): (Timestamp, Option<i64>, bool),
    ) -> Option<Command> {
        // What was seen before the last removal says nothing of it.
        if time >= self.progress {
            self.available = available.or(self.available);
            self.result.relieved = relieved;
        }
        if let State::Settling { until, goal, last } = *state {
            let back = goal
                .zip(self.available)
                .is_some_and(|(goal, seen)| seen >= goal);
            if self.result.relieved || (last && (back || now >= until)) {
                return Some(self.over());
            }
            return (back || now >= until).then(|| self.list());
        }
        if now.duration_since(self.progress) < PATIENCE {
            return None;
        }
        let seconds = PATIENCE.as_secs();
        let what = match state {
            State::Removing(removal) => format!("{removal}: "),
            _ => String::new(),
        };
        let why = format!("{what}the container runtime did not answer within {seconds} s");
        self.result.problems.push(why);
        Some(self.over())
    }

    fn listed(&mut self, now: Timestamp, inventory: Inventory) -> Command {
        if self.policy.dry_run {
            self.result.would_remove = all_removals(now, inventory, &self.policy);
            return self.over();
        }
        if self.result.relieved {
            return self.over();
        }
        loop {
            let all = plan::removals(now, &inventory, &self.policy, self.phase);
            let left = all.into_iter().filter(|one| !self.tried.contains(one.id()));
            self.queue = left.collect();
            if !self.queue.is_empty() {
                return self.next(now);
            }
            match self.phase {
                Phase::Containers => self.phase = Phase::Sandboxes,
                Phase::Sandboxes => {
                    self.phase = Phase::Images;
                    self.before_images = self.available;
                }
                Phase::Images => return self.last_wait(now),
            }
        }
    }

    fn removed(&mut self, now: Timestamp, removal: &Removal) -> Command {
        match removal {
            Removal::Container { .. } => self.result.containers += 1,
            Removal::Sandbox { .. } => self.result.sandboxes += 1,
            Removal::Image { bytes, .. } => {
                self.result.images += 1;
                let bytes = i64::try_from(*bytes).unwrap_or(i64::MAX);
                self.expected = self.expected.saturating_add(bytes);
                // Half, because layers can be shared and others write meanwhile.
                let goal = self.available.map(|seen| seen.saturating_add(bytes / 2));
                return self.settle(now, SETTLING, goal, false);
            }
        }
        if self.result.relieved {
            return self.over();
        }
        self.next(now)
    }

    /// The next of those that were planned; without one it is listed again, after what was removed is back.
    fn next(&mut self, now: Timestamp) -> Command {
        match self.queue.pop_front() {
            Some(removal) => {
                self.tried.insert(removal.id().to_owned());
                self.state = State::Removing(removal.clone());
                Command::Remove(removal)
            }
            None if self.phase == Phase::Containers && self.result.containers > 0 => {
                self.settle(now, SETTLING, None, false)
            }
            None => self.list(),
        }
    }

    /// Nothing is left to remove.
    fn last_wait(&mut self, now: Timestamp) -> Command {
        let goal = self
            .start
            .map(|start| start.saturating_add(self.expected / 2));
        let back = goal
            .zip(self.available)
            .is_some_and(|(goal, seen)| seen >= goal);
        if self.result.images == 0 || back {
            return self.over();
        }
        self.settle(now, LAST_SETTLING, goal, true)
    }

    fn settle(
        &mut self,
        now: Timestamp,
        time: SignedDuration,
        goal: Option<i64>,
        last: bool,
    ) -> Command {
        // Seen before the removal.
        self.result.relieved = false;
        let until = now.saturating_add(time).unwrap_or(now);
        self.state = State::Settling { until, goal, last };
        Command::Wait
    }

    fn list(&mut self) -> Command {
        self.state = State::Listing;
        Command::List
    }

    fn over(&mut self) -> Command {
        self.state = State::Over;
        let more = |before: Option<i64>, after: Option<i64>| {
            let more = before.zip(after).map(|(before, after)| after - before);
            more.and_then(|more| u64::try_from(more).ok()).unwrap_or(0)
        };
        let middle = match self.phase {
            Phase::Images => self.before_images,
            Phase::Containers | Phase::Sandboxes => self.available,
        };
        let mut result = std::mem::take(&mut self.result);
        if result.containers + result.sandboxes > 0 {
            result.container_bytes = more(self.start, middle);
        }
        if result.images > 0 {
            result.image_bytes = more(middle, self.available);
        }
        Command::Done(result)
    }
}
