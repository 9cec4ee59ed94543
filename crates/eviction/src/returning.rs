//! Owners whose pods come back to this node and are evicted again (users #10).
//!
//! From the second such eviction on the node's condition is held, for twice the transition period and twice as long with
//! each further one; from the third on its taint is, too. A limit of a pod's own is no pressure and does not count.

use crate::{ConditionMap, NodeCondition};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, fmt};

/// From this one on the condition is held.
const HOLDS: u32 = 2;
/// From this one on the taint is, too.
const KEEPS_AWAY: u32 = 3;
/// Evictions are remembered for so many times the longest back-off: it must outlast the one that they brought about.
const WINDOW: i32 = 3;
/// The most that are remembered.
const MOST: usize = 256;

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// `apps/v1`, ...
    pub api_version: String,
    /// `ReplicaSet`, ...
    pub kind: String,
    /// Its pods' namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
}

impl Owner {
    /// Of this pod; `None` where nobody would make it again.
    pub fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.controller.as_ref()?;
        Some(Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: pod.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// How long the node is held after an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backoff {
    /// How long a condition outlives its cause anyway.
    pub period: SignedDuration,
    /// The longest.
    pub longest: SignedDuration,
}

impl Backoff {
    /// After this eviction of an owner's pods, counted from 1; nothing after the first.
    pub fn after(&self, evictions: u32) -> SignedDuration {
        if evictions < HOLDS {
            return SignedDuration::ZERO;
        }
        let times = 1_i32.checked_shl(evictions - 1).filter(|times| *times > 0);
        let doubled = times.and_then(|times| self.period.checked_mul(times));
        doubled.map_or(self.longest, |doubled| doubled.min(self.longest))
    }

    /// How long an eviction counts.
    pub fn window(&self) -> SignedDuration {
        self.longest.max(self.period).saturating_mul(WINDOW)
    }
}

/// An owner whose pods came back, and what follows from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Returned {
    /// Whose.
    pub owner: Owner,
    /// How many of them were evicted here lately.
    pub evictions: u32,
    /// What the last one went for.
    pub condition: NodeCondition,
    /// How long that is held.
    pub until: Timestamp,
    /// Whether it also keeps new pods away so long.
    pub keeps_away: bool,
}

impl Returned {
    /// What came back to `node` and what follows, in one sentence.
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

/// Evictions of pods that somebody makes again, oldest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Returning {
    past: VecDeque<Past>,
}

#[derive(Debug, Clone)]
struct Past {
    time: Timestamp,
    owner: Owner,
    condition: NodeCondition,
    /// Of that owner's until then, with this one.
    evictions: u32,
}

impl Returning {
    /// Which eviction of this owner's pods one at this time is, counted from 1.
    pub(crate) fn count(&self, owner: &Owner, time: Timestamp, backoff: Backoff) -> u32 {
        let counts = |past: &&Past| {
            past.owner == *owner && time.duration_since(past.time) < backoff.window()
        };
        let before = self.past.iter().filter(counts).count();
        u32::try_from(before + 1).unwrap_or(u32::MAX)
    }

    /// A pod of this owner was evicted.
    pub(crate) fn evicted(
        &mut self,
        time: Timestamp,
        owner: Owner,
        condition: NodeCondition,
        backoff: Backoff,
    ) {
        let evictions = self.count(&owner, time, backoff);
        let over = |past: &Past| time.duration_since(past.time) >= backoff.window();
        while self.past.len() >= MOST || self.past.front().is_some_and(over) {
            self.past.pop_front();
        }
        self.past.push_back(Past {
            time,
            owner,
            condition,
            evictions,
        });
    }

    /// Which conditions are held now, and which of them keep new pods away.
    pub(crate) fn held(&self, now: Timestamp, backoff: Backoff) -> ConditionMap<Option<bool>> {
        let mut held = ConditionMap::default();
        for (past, _) in self.active(now, backoff) {
            let keeps_away = &mut held[past.condition];
            *keeps_away = Some(*keeps_away == Some(true) || past.keeps_away());
        }
        held
    }

    /// For whose sake, each once a condition; the last eviction first.
    pub(crate) fn returned(&self, now: Timestamp, backoff: Backoff) -> Vec<Returned> {
        let mut all: Vec<Returned> = Vec::new();
        for (past, until) in self.active(now, backoff) {
            let same =
                |one: &&mut Returned| one.owner == past.owner && one.condition == past.condition;
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

    /// Evictions for which the node is held, and until when; the last first.
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
        self.evictions >= KEEPS_AWAY
    }
}
