//! Costly pods take turns. A pod whose attempt exceeds the usual cost is put off, and with it all pods of its namespace. They
//! are tried by namespace in turn, and only after other pods have been tried at the same cost, or if no other pod waits. So a
//! namespace with many costly pods delays the others by one attempt at a time.

use super::pools::Turn;
use super::{Pool, Queue, QueueingHints};
use hashbrown::{HashMap, HashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

/// What an attempt may cost before its pod counts as costly, in units of cost. It is some 30 times the cost of an ordinary
/// attempt among 5000 nodes.
pub const USUAL_COST: u64 = 1 << 15;
/// How many namespaces with costly pods are remembered. Beyond it all are forgotten, and found again.
const MOST_NAMESPACES: usize = 4096;

/// The active costly pods, and the cost that other pods have to make up for.
#[derive(Debug, Default)]
pub(super) struct CostlyPods {
    /// The namespace of each costly pod, wherever it waits.
    namespaces: HashMap<Arc<str>, Arc<str>>,
    /// The active ones by namespace.
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

    /// The costly pod whose turn it is, with the next one of the others. A pod of higher priority goes first.
    pub(super) fn next(&self, other: Option<&Turn>) -> Option<&Turn> {
        if other.is_some() && self.debt > 0 {
            return None;
        }
        let may_go = |turn: &&Turn| other.is_none_or(|other| turn.0 <= other.0);
        let after = match &self.last {
            Some(last) => (Bound::Excluded(Arc::clone(last)), Bound::Unbounded),
            None => (Bound::Unbounded, Bound::Unbounded),
        };
        let namespaces = self.active.range(after).chain(&self.active);
        namespaces
            .filter_map(|(_, turns)| turns.first())
            .find(may_go)
    }

    /// A costly pod has its turn.
    pub(super) fn take_turn(&mut self, pod: &str) {
        self.last = self.namespaces.get(pod).cloned();
    }

    /// Counts the cost of an attempt of a namespace's pod.
    fn count(&mut self, namespace: &Arc<str>, cost: u64, had_turn: bool) {
        let exceeds = cost > USUAL_COST;
        if exceeds {
            self.debt = self.debt.saturating_add(cost);
            if self.known.len() >= MOST_NAMESPACES {
                self.known.clear();
            }
            self.known.insert(Arc::clone(namespace));
        } else if had_turn {
            self.known.remove(namespace);
        } else {
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
        let Some((pod, flight)) = self.in_flight.end(pod) else {
            return;
        };
        self.in_flight.trim();
        if self.pools.get(&pod).is_some() {
            return;
        }
        let mut entry = flight.entry;
        entry.attempts = entry.attempts.saturating_sub(1);
        self.pools.costly.mark(&pod, namespace);
        self.enter(pod, entry, Pool::Active, "CostlyAttempt", hints);
    }
}
