//! Evictions that do not help must stop: the cause is then elsewhere (users #28).

use crate::{
    Observation, Observations, Signal, SignalMap, ThresholdValue, decision::ActingThreshold, rules,
};
use jiff::Timestamp;

/// The last eviction for a signal and what came of it.
#[derive(Debug, Clone)]
struct Trial {
    victim: String,
    /// Of the acting threshold: it says which figure is weighed.
    value: ThresholdValue,
    chosen_at: Timestamp,
    /// What was left when the pod was chosen.
    before: i64,
    /// The least that it should have gained.
    least_gain: i64,
    outcome: Outcome,
    /// Evictions that gained too little, without one between them that helped.
    in_a_row: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// Chosen, but not known to be on its way out: a rehearsal, for all we know, and never counted.
    Chosen,
    /// To be weighed by the first new observation from then on; a pod that cannot be killed frees nothing.
    DueAt(Timestamp),
    /// Weighed.
    Known,
    /// Weighed, and one too many: since when no more are chosen, and what was left then.
    Stopped(Timestamp, i64),
}

/// Memory of trials, one a signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Futile {
    trials: SignalMap<Option<Trial>>,
}

impl Futile {
    /// A pod was chosen for this threshold.
    pub(crate) fn chosen(
        &mut self,
        now: Timestamp,
        acting: &ActingThreshold,
        uid: &str,
        limit: Option<rules::Futility>,
    ) {
        let Some(limit) = limit else { return };
        let (signal, observed) = (acting.threshold.signal, acting.observed);
        let min_reclaim = acting.threshold.min_reclaim;
        let min_reclaim = min_reclaim.map_or(0, |value| value.at(observed.capacity).value());
        let slot = &mut self.trials[signal];
        let in_a_row = match slot {
            // Further apart than a stop would last, they are no row.
            Some(trial) if now.duration_since(trial.chosen_at) < limit.pause => trial.in_a_row,
            _ => 0,
        };
        *slot = Some(Trial {
            victim: uid.to_owned(),
            value: acting.threshold.value,
            chosen_at: now,
            before: observed.available,
            least_gain: min_reclaim.max(observed.capacity / 100),
            outcome: Outcome::Chosen,
            in_a_row,
        });
    }

    /// This pod is on its way out; what its end gained shows from then on at the latest.
    pub(crate) fn due(&mut self, uid: &str, at: Timestamp) {
        for trial in self.trials.values_mut().flatten() {
            let open = matches!(trial.outcome, Outcome::Chosen | Outcome::DueAt(_));
            if open && trial.victim == uid {
                trial.outcome = Outcome::DueAt(at);
            }
        }
    }

    /// This pod was not ended after all, which says nothing on whether its end would have helped.
    pub(crate) fn lives_on(&mut self, uid: &str) {
        for trial in self.trials.values_mut().flatten() {
            if trial.victim == uid && matches!(trial.outcome, Outcome::DueAt(_)) {
                trial.outcome = Outcome::Chosen;
            }
        }
    }

    /// Weighs the last eviction by a new observation, and ends stops whose time has come.
    pub(crate) fn observe(
        &mut self,
        now: Timestamp,
        observations: &Observations,
        is_new: impl Fn(Signal, ThresholdValue, &Observation) -> bool,
        limit: Option<rules::Futility>,
    ) {
        let Some(limit) = limit else { return };
        for (signal, slot) in &mut self.trials {
            let Some(trial) = slot else { continue };
            let Some(seen) = observations.of(signal, trial.value) else {
                continue;
            };
            match trial.outcome {
                Outcome::DueAt(due) if due <= now && is_new(signal, trial.value, &seen) => {
                    trial.weigh(now, seen.available, limit.evictions);
                }
                Outcome::Stopped(since, then) => {
                    let enough = trial.least_gain.unsigned_abs().max(1);
                    let moved = seen.available.abs_diff(then) >= enough;
                    if moved || now.duration_since(since) >= limit.pause {
                        *slot = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// How many futile evictions in a row have stopped this signal, if they have.
    pub(crate) fn stopped(&self, signal: Signal) -> Option<u32> {
        let trial = self.trials[signal].as_ref()?;
        matches!(trial.outcome, Outcome::Stopped(..)).then_some(trial.in_a_row)
    }

    /// Every stopped signal and since when.
    pub(crate) fn stops(&self) -> impl Iterator<Item = (Signal, Timestamp)> {
        self.trials
            .iter()
            .filter_map(|(signal, trial)| match trial.as_ref()?.outcome {
                Outcome::Stopped(since, _) => Some((signal, since)),
                _ => None,
            })
    }
}

impl Trial {
    fn weigh(&mut self, now: Timestamp, available: i64, limit: u32) {
        let helped = available.saturating_sub(self.before) >= self.least_gain;
        self.in_a_row = if helped { 0 } else { self.in_a_row + 1 };
        self.outcome = if self.in_a_row >= limit {
            Outcome::Stopped(now, available)
        } else {
            Outcome::Known
        };
    }
}
