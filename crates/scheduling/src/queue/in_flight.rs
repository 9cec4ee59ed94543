//! The pods in flight (popped, their attempt not yet over) and the events since (S5-106).
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::Event;
use super::entry::Entry;

/// How many events are kept at most while pods are in flight, whatever happens. Beyond it the oldest half is dropped,
/// and a pod that was popped before a dropped event counts as woken: it backs off instead of waiting for an event.
pub const MAX_IN_FLIGHT_EVENTS: usize = 8192;

/// One list of events for all pods in flight: an event is kept once, a pod knows the position at which it was popped.
#[derive(Debug)]
pub(super) struct InFlight<E> {
    events: VecDeque<Event<E>>,
    /// The position of the first event that is kept, counted from the first that ever came.
    first: u64,
    pods: HashMap<Arc<str>, Flight>,
    /// The pods by the order of popping, which is also that of their positions.
    turns: BTreeMap<u64, (u64, Arc<str>)>,
    next_turn: u64,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) entry: Entry,
    pub(super) position: u64,
    turn: u64,
}

impl<E> InFlight<E> {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            pods: HashMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
        }
    }

    pub(super) fn contains(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    pub(super) fn key(&self, pod: &str) -> Option<Arc<str>> {
        self.pods.get_key_value(pod).map(|(key, _)| Arc::clone(key))
    }

    pub(super) fn entry(&self, pod: &str) -> Option<&Entry> {
        self.pods.get(pod).map(|flight| &flight.entry)
    }

    /// In the order of popping.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<str>> {
        self.turns.values().map(|(_, pod)| pod)
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().map(|event| event.label)
    }

    pub(super) fn start(&mut self, pod: Arc<str>, entry: Entry) {
        let position = self.first + self.events.len() as u64;
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, (position, Arc::clone(&pod)));
        let flight = Flight {
            entry,
            position,
            turn,
        };
        self.pods.insert(pod, flight);
    }

    pub(super) fn record(&mut self, event: Event<E>) {
        if self.pods.is_empty() {
            return;
        }
        if self.events.len() == MAX_IN_FLIGHT_EVENTS {
            self.events.drain(..MAX_IN_FLIGHT_EVENTS / 2);
            self.first += (MAX_IN_FLIGHT_EVENTS / 2) as u64;
        }
        self.events.push_back(event);
    }

    /// The events since this position; `None` if some of them are no longer kept.
    pub(super) fn since(&self, position: u64) -> Option<impl Iterator<Item = &Event<E>>> {
        let skip = position.checked_sub(self.first)?;
        let skip = usize::try_from(skip).unwrap_or(usize::MAX);
        Some(self.events.iter().skip(skip))
    }

    /// Takes the pod out. Its events stay until [`trim`](Self::trim), because they are replayed first.
    pub(super) fn end(&mut self, pod: &str) -> Option<(Arc<str>, Flight)> {
        let (pod, flight) = self.pods.remove_entry(pod)?;
        self.turns.remove(&flight.turn);
        Some((pod, flight))
    }

    /// Drops the events that came before the oldest pod in flight was popped.
    pub(super) fn trim(&mut self) {
        let end = self.first + self.events.len() as u64;
        let oldest = self
            .turns
            .first_key_value()
            .map_or(end, |(_, (position, _))| *position);
        let passed = oldest.saturating_sub(self.first);
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        self.events.drain(..passed.min(self.events.len()));
        self.first = self.first.max(oldest);
    }
}
