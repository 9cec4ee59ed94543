//! Node-level reclaim: which dead containers and unused images are removed before a pod is evicted (S1-037 to S1-041).
//!
//! The caller reports each [`Event`] to [`Reclaiming`] and carries out the returned [`Command`]. One command is under
//! way at a time:
//!
//! ```text
//! List ── Remove ── Remove ── .. ── Wait ── List ── Remove ── Wait ── List ── .. ── Done
//!         dead containers            │              one image
//!                                    until enough is free, the removed bytes are back, or two seconds have passed
//! ```
//!
//! Runtimes delete in the background: the space is back on the filesystem some time after the answer (users #15).
//! Therefore each removal of an image is waited for before the next one is chosen, so that no more is removed than
//! needed. The inventory is listed again, because a container may have begun to use the next one.
//!
//! [`Reclaiming::outlook`] says what it may free yet, and `wait` whether an eviction waits for that.
#![forbid(unsafe_code)]

mod cold;
mod inventory;
mod outlook;
mod plan;
mod result;
#[cfg(test)]
mod tests;
mod uses;
mod wait;

pub use cold::{ColdShare, cold_shares};
pub use inventory::{Container, Image, Inventory, Policy, Sandbox, Size};
pub use outlook::{Gain, Outlook};
pub use plan::{Removal, all_removals};
pub use result::Reclaimed;
pub use uses::ImageUses;
pub use wait::{Wait, wait};

use jiff::{SignedDuration, Timestamp};
use outlook::Gains;
use plan::Phase;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How long one removal may take to show on the filesystem.
const SETTLING: SignedDuration = SignedDuration::from_secs(2);
/// How long all of them together may take after the last one.
const LAST_SETTLING: SignedDuration = SignedDuration::from_secs(5);
/// A runtime that lists and removes nothing for this long is not waited for any more.
pub(crate) const PATIENCE: SignedDuration = SignedDuration::from_secs(10);
/// The message lists this many failed removals.
const FAILURES_TOLD: usize = 3;

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The answer to [`Command::List`].
    Listed(Inventory),
    /// The object that [`Command::Remove`] named is removed.
    Removed,
    /// The last command failed, for this reason.
    Failed(String),
    /// The available space of the filesystem; reported in every cycle, also while a command is under way.
    Observed {
        /// When the filesystem was asked.
        time: Timestamp,
        /// Bytes available; `None` if unknown.
        available: Option<i64>,
        /// Whether no threshold is met any more, minimum reclaim included.
        relieved: bool,
    },
}

/// The next action of the caller.
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

/// The event that the machine waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Listing,
    Removing(Removal),
    /// Until this many bytes are available, or this time.
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
    began: Timestamp,
    /// When the runtime last did something.
    progress: Timestamp,
    /// The available bytes at the start, after the containers, and last.
    start: Option<i64>,
    before_images: Option<i64>,
    available: Option<i64>,
    /// The sum of the removed sizes that are known.
    expected: i64,
    /// The size that each removal frees, as of the last list.
    sizes: BTreeMap<String, Option<Size>>,
    /// Removed sizes that are not known to be back.
    returning: Gains,
    /// The available bytes before it was removed.
    before_removal: Option<i64>,
    /// Whether the runtime has answered everything in time.
    answered: bool,
    result: Reclaimed,
}

impl Reclaiming {
    /// Begins with [`Command::List`]. `available`: the bytes available on the filesystem now.
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
            began: now,
            progress: now,
            start: available,
            before_images: available,
            available,
            expected: 0,
            sizes: BTreeMap::new(),
            returning: Gains::default(),
            before_removal: None,
            answered: true,
            result: Reclaimed::default(),
        };
        (machine, Command::List)
    }

    /// Applies an event; `None` if the last command is still under way.
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
                self.answered = false;
                self.result.problems.push(why);
                Some(self.over())
            }
            (Event::Removed, State::Removing(removal)) => {
                self.progress = now;
                Some(self.removed(now, &removal))
            }
            (Event::Failed(why), State::Removing(removal)) => {
                self.result.failed += 1;
                let size = self.sizes.get(removal.id()).copied().flatten();
                self.returning.take_back(size);
                if self.result.problems.len() < FAILURES_TOLD {
                    self.result.problems.push(format!("{removal}: {why}"));
                }
                Some(match self.phase {
                    Phase::Images => self.list(),
                    Phase::Containers | Phase::Sandboxes => self.next(now),
                })
            }
            // An answer to a command that is not awaited any more.
            (Event::Listed(_) | Event::Removed | Event::Failed(_), _) => None,
        }
    }

    /// The amount that this reclaim may still free, by the last list of the runtime: objects not removed yet, and
    /// removed ones whose space is not back. It counts for the filesystem that this policy cleans, which may be of
    /// another signal.
    pub fn outlook(
        &self,
        now: Timestamp,
        inventory: Option<&Inventory>,
        policy: &Policy,
    ) -> Outlook {
        let gained = self.before_removal.zip(self.available);
        let gained = gained.map_or(0, |(before, seen)| seen.saturating_sub(before));
        let kinds = |policy: &Policy| (policy.dead_containers, policy.unused_images);
        // Space that containers return is no gain for a reclaim of images, and the other way round.
        let mut gains = if kinds(policy) == kinds(&self.policy) {
            self.returning.without(gained)
        } else {
            Gains::default()
        };
        gains.extend(now, inventory, policy, |id| self.tried.contains(id));
        Outlook {
            bytes: gains.bytes,
            inodes: gains.inodes,
            began: self.began,
            progress: self.progress,
        }
    }

    /// Ids of the objects that were removed, could not be, or in a dry run would have been. `None` if the runtime did
    /// not answer.
    pub fn into_tried(self) -> Option<BTreeSet<String>> {
        self.answered.then_some(self.tried)
    }

    fn observed(
        &mut self,
        now: Timestamp,
        state: &State,
        (time, available, relieved): (Timestamp, Option<i64>, bool),
    ) -> Option<Command> {
        // An observation from before the last removal does not show its effect.
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
            if back {
                self.returning = Gains::default();
                self.before_removal = None;
            }
            return (back || now >= until).then(|| self.list());
        }
        if now.duration_since(self.progress) < PATIENCE {
            return None;
        }
        self.answered = false;
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
            let would = self.result.would_remove.iter();
            self.tried = would.map(|one| one.id().to_owned()).collect();
            return self.over();
        }
        if self.result.relieved {
            return self.over();
        }
        loop {
            let all = plan::removals(now, &inventory, &self.policy, self.phase);
            let left = all.into_iter().filter(|one| !self.tried.contains(one.id()));
            self.queue = left.collect();
            let sized = |one: &Removal| (one.id().to_owned(), plan::size_of(one, &inventory));
            self.sizes = self.queue.iter().map(sized).collect();
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

    /// The next planned removal. Without one the inventory is listed again once the removed space is back.
    fn next(&mut self, now: Timestamp) -> Command {
        match self.queue.pop_front() {
            Some(removal) => {
                self.tried.insert(removal.id().to_owned());
                let size = self.sizes.get(removal.id()).copied().flatten();
                self.returning.add(size);
                self.before_removal = self.before_removal.or(self.available);
                self.state = State::Removing(removal.clone());
                Command::Remove(removal)
            }
            None if self.phase == Phase::Containers && self.returning.is_worth_waiting() => {
                let half = self.returning.bytes.known / 2;
                let goal = self.before_removal.map(|seen| seen.saturating_add(half));
                self.settle(now, SETTLING, goal.filter(|_| half > 0), false)
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
