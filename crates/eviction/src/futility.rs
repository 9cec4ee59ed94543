//! Stops evictions that do not help: then the pods are not the cause of the shortage (users #28).

use crate::rules;
use evictd_decision::ActingThreshold;
use evictd_signals::{Observation, Observations, Signal, SignalMap, ThresholdValue};
use jiff::Timestamp;

/// The last eviction for a signal and its effect.
#[derive(Debug, Clone)]
struct Trial {
    victim: String,
    /// Value of the acting threshold, which decides which figure to compare.
    value: ThresholdValue,
    chosen_at: Timestamp,
    /// The available amount when the pod was chosen.
    before: i64,
    /// The smallest gain that counts as success.
    least_gain: i64,
    outcome: Outcome,
    /// Consecutive evictions that gained too little.
    in_a_row: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Outcome {
    /// Chosen, but its termination has not begun. In a dry run it never begins, and then the eviction is not
    /// counted.
    Chosen,
    /// The first observation from then on is compared; before that the pod may not be killed yet and frees nothing.
    DueAt(Timestamp),
    Known,
    /// Compared, and the limit is reached: since when evictions are stopped, and the amount available then.
    Stopped(Timestamp, i64),
}

/// The last eviction of each signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Futile {
    trials: SignalMap<Option<Trial>>,
}

impl Futile {
    /// Notes that a pod was chosen for this threshold; `short` is the missing amount, in the unit of the signal.
    pub(crate) fn chosen(
        &mut self,
        now: Timestamp,
        (acting, short): (&ActingThreshold, i64),
        uid: &str,
        limit: Option<rules::Futility>,
    ) {
        let Some(limit) = limit else { return };
        let (signal, observed) = (acting.threshold.signal, acting.observed);
        let slot = &mut self.trials[signal];
        let in_a_row = match slot {
            // Evictions further apart than the length of a stop are not consecutive.
            Some(trial) if now.duration_since(trial.chosen_at) < limit.pause => trial.in_a_row,
            _ => 0,
        };
        *slot = Some(Trial {
            victim: uid.to_owned(),
            value: acting.threshold.value,
            chosen_at: now,
            before: observed.available,
            least_gain: least_gain(acting, short),
            outcome: Outcome::Chosen,
            in_a_row,
        });
    }

    /// Notes that this pod is terminating; its effect is visible from `at` on at the latest.
    pub(crate) fn set_due(&mut self, uid: &str, at: Timestamp) {
        for trial in self.trials.values_mut().flatten() {
            // A comparison that was made is not opened again by a late event of the same pod.
            let open = matches!(trial.outcome, Outcome::Chosen | Outcome::DueAt(_));
            if open && trial.victim == uid {
                trial.outcome = Outcome::DueAt(at);
            }
        }
    }

    /// Notes that this pod was not terminated, so the effect of its end is unknown.
    pub(crate) fn not_terminated(&mut self, uid: &str) {
        for trial in self.trials.values_mut().flatten() {
            // Back to chosen: if the pod is terminated later, its effect is compared then.
            if trial.victim == uid && matches!(trial.outcome, Outcome::DueAt(_)) {
                trial.outcome = Outcome::Chosen;
            }
        }
    }

    /// Compares the last eviction with a new observation, and ends stops that are over.
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
                    trial.compare(now, seen.available, limit.evictions);
                }
                Outcome::Stopped(since, then) => {
                    let enough = trial.least_gain.unsigned_abs().max(1);
                    // A change in either direction means that the cause may be another one now.
                    let moved = seen.available.abs_diff(then) >= enough;
                    if moved || now.duration_since(since) >= limit.pause {
                        *slot = None;
                    }
                }
                _ => {}
            }
        }
    }

    /// After how many consecutive futile evictions this signal was stopped; `None` if it is not.
    pub(crate) fn stopped(&self, signal: Signal) -> Option<u32> {
        let trial = self.trials[signal].as_ref()?;
        matches!(trial.outcome, Outcome::Stopped(..)).then_some(trial.in_a_row)
    }

    /// Every stopped signal and since when it is stopped.
    pub(crate) fn stops(&self) -> impl Iterator<Item = (Signal, Timestamp)> {
        self.trials
            .iter()
            .filter_map(|(signal, trial)| match trial.as_ref()?.outcome {
                Outcome::Stopped(since, _) => Some((signal, since)),
                _ => None,
            })
    }
}

/// The smallest gain that counts as success: a hundredth of the capacity, or a tenth of the missing amount if that is
/// less. Many small pods lift a signal together.
fn least_gain(acting: &ActingThreshold, short: i64) -> i64 {
    let hundredth = acting.observed.capacity / 100;
    if acting.threshold.signal.is_pressure() {
        return hundredth;
    }
    hundredth.min(short / 10).max(1)
}

impl Trial {
    fn compare(&mut self, now: Timestamp, available: i64, limit: u32) {
        let helped = available.saturating_sub(self.before) >= self.least_gain;
        self.in_a_row = if helped { 0 } else { self.in_a_row + 1 };
        self.outcome = if self.in_a_row >= limit {
            Outcome::Stopped(now, available)
        } else {
            Outcome::Known
        };
    }
}
