//! Owners whose pods come back to this node and are evicted again (users #10).
//!
//! From the second such eviction on the node's condition is held for twice the transition period, doubled with each
//! further eviction; from the third on its taint is held as well. A pod that exceeds its own limit is not a sign of
//! pressure on the node and does not count.

use evictd_decision::Owner;
use evictd_signals::{ConditionMap, NodeCondition};
use jiff::{SignedDuration, Timestamp};
use std::collections::VecDeque;

/// From this eviction on the condition is held.
const CONDITION_FROM: u32 = 2;
/// From this eviction on the taint is held, too.
const TAINT_FROM: u32 = 3;
/// Evictions are remembered for this many times the longest back-off, so that they outlast the back-off that they
/// caused.
const WINDOW: i32 = 3;
/// The most evictions that are remembered.
const MAX_REMEMBERED: usize = 256;

/// How long a condition is held after an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// The transition period: how long a condition lasts anyway after its cause is over.
    pub period: SignedDuration,
    /// The longest time that the condition is held after one eviction.
    pub longest: SignedDuration,
}

impl Backoff {
    /// How long the condition is held after this eviction of an owner's pods, counted from 1; zero after the first.
    pub fn after(&self, evictions: u32) -> SignedDuration {
        if evictions < CONDITION_FROM {
            return SignedDuration::ZERO;
        }
        let times = 1_i32.checked_shl(evictions - 1).filter(|times| *times > 0);
        let doubled = times.and_then(|times| self.period.checked_mul(times));
        doubled.map_or(self.longest, |doubled| doubled.min(self.longest))
    }

    /// How long an eviction is remembered.
    pub fn window(&self) -> SignedDuration {
        self.longest.max(self.period).saturating_mul(WINDOW)
    }
}

/// An owner whose pods came back, and the consequence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// The controller of the pods.
    pub owner: Owner,
    /// How many of its pods were evicted on this node recently.
    pub evictions: u32,
    /// The condition for which the last one was evicted.
    pub condition: NodeCondition,
    /// Until when the condition is held.
    pub until: Timestamp,
    /// Whether the taint is held, too.
    pub keeps_away: bool,
}

impl Returned {
    /// One sentence for people: which pods came back to `node`, and the consequence.
    pub fn sentence(&self, node: &str) -> String {
        let keeps_away = if self.keeps_away {
            " and keeps new pods away"
        } else {
            ""
        };
        format!(
            "Pods of {} come back to {node} and were evicted {} times: {} holds{keeps_away} until {:.0}",
            self.owner,
            self.evictions,
            self.condition.as_str(),
            self.until
        )
    }
}

/// Evictions of pods that have an owner, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Returning {
    past: VecDeque<Past>,
}

#[derive(Debug, Clone)]
struct Past {
    time: Timestamp,
    owner: Owner,
    condition: NodeCondition,
    /// How many of the owner's pods had been evicted by then, including this one.
    evictions: u32,
}

impl Returning {
    /// The number of an eviction of this owner's pods at `time`, counted from 1.
    pub(crate) fn count(&self, owner: &Owner, time: Timestamp, backoff: Backoff) -> u32 {
        let counts = |past: &&Past| {
            past.owner == *owner && time.duration_since(past.time) < backoff.window()
        };
        let before = self.past.iter().filter(counts).count();
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// Adds an eviction of a pod of this owner.
    pub(crate) fn evicted(
        &mut self,
        time: Timestamp,
        owner: Owner,
        condition: NodeCondition,
        backoff: Backoff,
    ) {
        let evictions = self.count(&owner, time, backoff);
        let over = |past: &Past| time.duration_since(past.time) >= backoff.window();
        // Bounded, because each owner is a name that a tenant can choose.
        while self.past.len() >= MAX_REMEMBERED || self.past.front().is_some_and(over) {
            self.past.pop_front();
        }
        self.past.push_back(Past {
            time,
            owner,
            condition,
            evictions,
        });
    }

    /// Which conditions are held now, and for which of them the taint is held, too.
    pub(crate) fn held(&self, now: Timestamp, backoff: Backoff) -> ConditionMap<Option<bool>> {
        let mut held = ConditionMap::default();
        for (past, _) in self.active(now, backoff) {
            let keeps_away = &mut held[past.condition];
            *keeps_away = Some(*keeps_away == Some(true) || past.keeps_away());
        }
        held
    }

    /// The owners for which conditions are held, each once per condition; the last eviction first.
    pub(crate) fn returned(&self, now: Timestamp, backoff: Backoff) -> Vec<Returned> {
        let mut all: Vec<Returned> = Vec::new();
        for (past, until) in self.active(now, backoff) {
            let same =
                |one: &&mut Returned| one.owner == past.owner && one.condition == past.condition;
            // Newest first, so the number of evictions is that of the newest.
            if let Some(last) = all.iter_mut().find(same) {
                last.until = last.until.max(until);
                last.keeps_away |= past.keeps_away();
                continue;
            }
            all.push(Returned {
                owner: past.owner.clone(),
                evictions: past.evictions,
                condition: past.condition,
                until,
                keeps_away: past.keeps_away(),
            });
        }
        all
    }

    /// Evictions because of which a condition is held, and until when; the last one first.
    fn active(&self, now: Timestamp, backoff: Backoff) -> impl Iterator<Item = (&Past, Timestamp)> {
        let until = move |past: &Past| {
            let until = past.time.saturating_add(backoff.after(past.evictions));
            until.unwrap_or(Timestamp::MAX)
        };
        let until = self.past.iter().rev().map(move |past| (past, until(past)));
        until.filter(move |(_, until)| now < *until)
    }
}

impl Past {
    const fn keeps_away(&self) -> bool {
        self.evictions >= TAINT_FROM
    }
}
