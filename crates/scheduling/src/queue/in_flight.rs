//! The pods in flight (popped, their attempt not yet over) and the events that came meanwhile (S5-106).
use std::collections::{BTreeSet, VecDeque};
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
    by_position: BTreeSet<(u64, Arc<str>)>,
}

#[derive(Debug)]
pub(super) struct Flight {
    pub(super) entry: Entry,
    pub(super) position: u64,
    /// A plugin asked for this pod alone (S5-034).
    pub(super) activated: bool,
}

impl<E> InFlight<E> {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            pods: HashMap::new(),
            by_position: BTreeSet::new(),
        }
    }

    pub(super) fn contains(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }

    pub(super) fn events(&self) -> usize {
        self.events.len()
    }

    pub(super) fn start(&mut self, pod: Arc<str>, entry: Entry) {
        let position = self.first + self.events.len() as u64;
        self.by_position.insert((position, Arc::clone(&pod)));
        self.pods.insert(
            pod,
            Flight {
                entry,
                position,
                activated: false,
            },
        );
    }

    pub(super) fn flight(&mut self, pod: &str) -> Option<&mut Flight> {
        self.pods.get_mut(pod)
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
        Some(
            self.events
                .iter()
                .skip(usize::try_from(skip).unwrap_or(usize::MAX)),
        )
    }

    /// Takes the pod out. Its events stay until [`trim`](Self::trim), for they are still to be replayed.
    pub(super) fn end(&mut self, pod: &str) -> Option<Flight> {
        let (pod, flight) = self.pods.remove_entry(pod)?;
        self.by_position.remove(&(flight.position, pod));
        Some(flight)
    }

    /// Drops the events that came before the oldest pod in flight was popped.
    pub(super) fn trim(&mut self) {
        let end = self.first + self.events.len() as u64;
        let oldest = self
            .by_position
            .first()
            .map_or(end, |(position, _)| *position);
        let passed = oldest.saturating_sub(self.first);
        self.events.drain(
            ..usize::try_from(passed)
                .unwrap_or(usize::MAX)
                .min(self.events.len()),
        );
        self.first += passed;
    }
}
