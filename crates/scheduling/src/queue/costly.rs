//! Costly pods take turns. A pod whose attempt exceeds the usual cost is put off, and with it all pods of its namespace. Such
//! namespaces are served in turn, one pod at a time. Each turn must be paid for by attempts of other pods at the same cost, unless
//! no other pod waits. So a namespace with many costly pods delays the others by one attempt at a time.

use super::entry::Turn;
use super::{Pool, Queue, QueueingHints};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// The cost above which a pod counts as costly, in units of cost. It is some 30 times the cost of an ordinary attempt among 5000
/// nodes.
pub const USUAL_COST: u64 = 1 << 15;
/// The most namespaces with costly pods that are remembered. Beyond it all are forgotten, and found again.
const MAX_NAMESPACES: usize = 4096;

/// The active costly pods, and the cost that attempts of other pods must reach before the next turn.
#[derive(Debug, Default)]
pub(super) struct CostlyPods {
    /// The namespace of each costly pod, wherever it waits.
    namespaces: HashMap<Arc<str>, Arc<str>>,
    /// The active costly pods by namespace.
    active: BTreeMap<Arc<str>, BTreeSet<Turn>>,
    /// The namespace that had the last turn.
    last: Option<Arc<str>>,
    /// Namespaces whose pods are put off before they are tried.
    known: HashSet<Arc<str>>,
    /// The cost of costly attempts without that of the other attempts since.
    debt: u64,
}

impl CostlyPods {
    pub(super) fn mark(&mut self, pod: &Arc<str>, namespace: &Arc<str>) {
        self.namespaces
            .insert(Arc::clone(pod), Arc::clone(namespace));
    }

    /// The pod no longer waits.
    pub(super) fn forget(&mut self, pod: &str) {
        if !self.namespaces.is_empty() {
            self.namespaces.remove(pod);
        }
    }

    /// Adds an active pod, if it is costly.
    pub(super) fn insert(&mut self, turn: &Turn) -> bool {
        if self.namespaces.is_empty() {
            return false;
        }
        let Some(namespace) = self.namespaces.get(&turn.2) else {
            return false;
        };
        let turns = self.active.entry(Arc::clone(namespace)).or_default();
        turns.insert(turn.clone());
        true
    }

    /// Takes an active pod out, if it is costly.
    pub(super) fn remove(&mut self, turn: &Turn) -> bool {
        if self.active.is_empty() {
            return false;
        }
        let Some(namespace) = self.namespaces.get(&turn.2) else {
            return false;
        };
        let Some(turns) = self.active.get_mut(namespace) else {
            return false;
        };
        let is_costly = turns.remove(turn);
        if turns.is_empty() {
            self.active.remove(namespace);
        }
        is_costly
    }

    pub(super) fn len(&self) -> usize {
        self.active.values().map(BTreeSet::len).sum()
    }

    pub(super) fn list(&self) -> impl Iterator<Item = &Turn> {
        self.active.values().flatten()
    }

    /// The costly pod that has the next turn. `other` is the next of the other pods; one of higher priority comes first.
    pub(super) fn next(&self, other: Option<&Turn>) -> Option<&Turn> {
        // Other pods come first until they have had as much work. If none waits, a costly pod delays no other.
        if other.is_some() && self.debt > 0 {
            return None;
        }
        let has_priority = |turn: &&Turn| other.is_none_or(|other| turn.0 <= other.0);
        // The namespace after the last one, so that each of them has its turn.
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let namespaces = self.active.range(after).chain(&self.active);
        namespaces
            .filter_map(|(_, turns)| turns.first())
            .find(has_priority)
    }

    /// Gives a costly pod its turn.
    pub(super) fn take_turn(&mut self, pod: &str) {
        self.last = self.namespaces.get(pod).cloned();
    }

    /// Counts the cost of an attempt of a namespace's pod.
    fn count(&mut self, namespace: &Arc<str>, cost: u64, had_turn: bool) {
        let exceeds = cost > USUAL_COST;
        if exceeds {
            self.debt = self.debt.saturating_add(cost);
            if self.known.len() >= MAX_NAMESPACES {
                self.known.clear();
            }
            self.known.insert(Arc::clone(namespace));
        } else if had_turn {
            self.known.remove(namespace);
        } else {
            // At least one unit, so that the debt ends even if attempts cost nothing.
            self.debt = self.debt.saturating_sub(cost.max(1));
        }
    }
}

impl<E> Queue<E> {
    /// Whether pods of this namespace take turns.
    pub(crate) fn takes_turns(&self, namespace: &str) -> bool {
        !self.pools.costly.known.is_empty() && self.pools.costly.known.contains(namespace)
    }

    /// Counts the cost of an attempt.
    pub(crate) fn count_cost(&mut self, namespace: &Arc<str>, cost: u64, had_turn: bool) {
        self.pools.costly.count(namespace, cost, had_turn);
    }

    /// Puts a pod in flight back among the active pods, as a costly one. That is not an attempt.
    pub(crate) fn put_off(
        &mut self,
        pod: &str,
        namespace: &Arc<str>,
        hints: &impl QueueingHints<E>,
    ) {
        let Some((pod, attempt)) = self.in_flight.end(pod) else {
            return;
        };
        self.in_flight.trim();
        if self.pools.get(&pod).is_some() {
            return;
        }
        let mut entry = attempt.entry;
        entry.attempts = entry.attempts.saturating_sub(1);
        self.pools.costly.mark(&pod, namespace);
        // It was active before, so that the time of its arrival is known.
        let since = entry.timestamp.timestamp();
        self.enter(pod, entry, Pool::Active, ("CostlyAttempt", since), hints);
    }
}
