//! Decisions that are not made at present, so that they do not hide the signals for which a pod can be evicted.

use evictd_signals::{Signal, SignalMap};
use evictd_usage::UsageNeed;
use jiff::Timestamp;

/// For each signal why its decision is not made.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pauses {
    no_victim: SignalMap<Option<NoVictim>>,
    /// In this cycle an earlier victim is waited for.
    departures: SignalMap<bool>,
}

/// A decision that evicted no pod.
#[derive(Debug, Clone, Copy)]
struct NoVictim {
    hard: bool,
    /// It is not repeated before this time.
    until: Timestamp,
    /// Other signals have their turn until then, so that a decision that is repeated as soon as it may be does not take
    /// every turn.
    behind_until: Timestamp,
}

impl Pauses {
    /// Whether other signals go before such a threshold in this cycle.
    pub(super) fn hold(&self, signal: Signal, hard: bool) -> bool {
        let no_victim = self.no_victim[signal].is_some_and(|last| last.hard == hard);
        no_victim || self.departures[signal]
    }

    /// Whether the last decision evicted no pod, and it is too soon to repeat it.
    pub(super) fn rest(&self, now: Timestamp, need: UsageNeed) -> bool {
        let last = self.no_victim[need.signal].filter(|last| last.hard == need.hard);
        last.is_some_and(|last| now < last.until)
    }

    pub(super) fn note(&mut self, need: UsageNeed, until: Timestamp, behind_until: Timestamp) {
        self.no_victim[need.signal] = Some(NoVictim {
            hard: need.hard,
            until,
            behind_until,
        });
    }

    pub(super) fn waits_for_departure(&self, signal: Signal) -> bool {
        self.departures[signal]
    }

    pub(super) fn wait_for_departure(&mut self, signal: Signal) {
        self.departures[signal] = true;
    }

    pub(super) fn next_cycle(&mut self) {
        self.departures = SignalMap::default();
    }

    /// Ends the pauses that are over.
    pub(super) fn end(&mut self, now: Timestamp) {
        for pause in self.no_victim.values_mut() {
            *pause = pause.filter(|last| now < last.behind_until);
        }
    }

    /// A pod has ended, or may end earlier: decisions that found no victim are made again.
    pub(super) fn forget_victims(&mut self) {
        self.no_victim = SignalMap::default();
    }

    /// When a decision that evicted no pod is repeated at the earliest; `None` if there is none.
    pub(super) fn next_end(&self, now: Timestamp) -> Option<Timestamp> {
        let pauses = self.no_victim.into_iter();
        let ends = pauses.filter_map(|(_, last)| Some(last?.until));
        ends.filter(|until| *until > now).min()
    }
}
