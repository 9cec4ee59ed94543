//! The pods in flight, which were popped and whose attempt is not over, and the events since then (S5-106).
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use hashbrown::HashMap;

use super::Event;
use super::entry::Entry;

/// The most events that are kept for the pods in flight. Beyond it the oldest half is dropped. A pod that was popped before a
/// dropped event counts as woken: it backs off instead of waiting for an event.
pub const MAX_IN_FLIGHT_EVENTS: usize = 8192;

/// All pods in flight share one list of events. Each pod has the position in it at which it was popped.
#[derive(Debug)]
pub(super) struct InFlight<E> {
    events: VecDeque<Event<E>>,
    /// The position of the first kept event, counted from the first event of all.
    first: u64,
    pods: HashMap<Arc<str>, PodInFlight>,
    /// The positions and pods in the order of popping, in which the positions increase.
    by_pop_order: BTreeMap<u64, (u64, Arc<str>)>,
    next_pop: u64,
}

#[derive(Debug)]
pub(super) struct PodInFlight {
    pub(super) entry: Entry,
    pub(super) position: u64,
    pop: u64,
}

impl<E> InFlight<E> {
    pub(super) fn new() -> Self {
        Self {
            events: VecDeque::new(),
            first: 0,
            pods: HashMap::new(),
            by_pop_order: BTreeMap::new(),
            next_pop: 0,
        }
    }

    pub(super) fn contains(&self, pod: &str) -> bool {
        self.pods.contains_key(pod)
    }

    pub(super) fn key(&self, pod: &str) -> Option<Arc<str>> {
        self.pods.get_key_value(pod).map(|(key, _)| Arc::clone(key))
    }

    pub(super) fn entry(&self, pod: &str) -> Option<&Entry> {
        self.pods.get(pod).map(|attempt| &attempt.entry)
    }

    /// In the order of popping.
    pub(super) fn pods(&self) -> impl Iterator<Item = &Arc<str>> {
        self.by_pop_order.values().map(|(_, pod)| pod)
    }

    pub(super) fn labels(&self) -> impl Iterator<Item = &'static str> {
        self.events.iter().map(|event| event.label)
    }

    pub(super) fn start(&mut self, pod: Arc<str>, entry: Entry) {
        let position = self.first + self.events.len() as u64;
        let pop = self.next_pop;
        self.next_pop += 1;
        self.by_pop_order.insert(pop, (position, Arc::clone(&pod)));
        let attempt = PodInFlight {
            entry,
            position,
            pop,
        };
        self.pods.insert(pod, attempt);
    }

    pub(super) fn record(&mut self, event: Event<E>) {
        // Without a pod in flight no attempt will replay the event.
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

    /// Removes the pod. Its events stay until [`trim`](Self::trim), because they are replayed first.
    pub(super) fn end(&mut self, pod: &str) -> Option<(Arc<str>, PodInFlight)> {
        let (pod, attempt) = self.pods.remove_entry(pod)?;
        self.by_pop_order.remove(&attempt.pop);
        Some((pod, attempt))
    }

    /// Drops the events that came before the oldest pod in flight was popped.
    pub(super) fn trim(&mut self) {
        let end = self.first + self.events.len() as u64;
        let oldest = self
            .by_pop_order
            .first_key_value()
            .map_or(end, |(_, (position, _))| *position);
        let passed = oldest.saturating_sub(self.first);
        let passed = usize::try_from(passed).unwrap_or(usize::MAX);
        self.events.drain(..passed.min(self.events.len()));
        self.first = self.first.max(oldest);
    }
}
