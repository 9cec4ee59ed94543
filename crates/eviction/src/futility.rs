//! Evictions that do not help must stop: the cause is then elsewhere (users #28).

use crate::{Observations, Signal, decision::ActingThreshold, rules};
use jiff::Timestamp;

/// The last eviction for a signal and what came of it.
#[derive(Debug, Clone, Copy)]
struct Trial {
    /// What was left when the pod was chosen.
    before: i64,
    /// The least that it should have gained.
    least_gain: i64,
    in_a_row: u32,
    /// Since when no more are chosen, and what was left then.
    stopped: Option<(Timestamp, i64)>,
}

/// Memory of trials, one a signal.
#[derive(Debug, Clone, Default)]
pub(crate) struct Futile {
    trials: [Option<Trial>; Signal::ALL.len()],
    /// The signal whose last victim is not gone, or whose gain has not been seen yet.
    pending: Option<Signal>,
    gone: bool,
}

impl Futile {
    /// A pod was chosen for this threshold.
    pub(crate) fn chosen(&mut self, acting: &ActingThreshold) {
        let (signal, observed) = (acting.threshold.signal, acting.observed);
        let min_reclaim = acting.threshold.min_reclaim;
        let min_reclaim = min_reclaim.map_or(0, |value| value.at(observed.capacity).value());
        let in_a_row = self.trials[signal as usize].map_or(0, |trial| trial.in_a_row);
        self.trials[signal as usize] = Some(Trial {
            before: observed.available,
            least_gain: min_reclaim.max(observed.capacity / 100),
            in_a_row,
            stopped: None,
        });
        self.pending = Some(signal);
        self.gone = false;
    }

    /// The chosen pod is gone; the next observation counts.
    pub(crate) fn victim_gone(&mut self) {
        self.gone = true;
    }

    /// Weighs the last eviction, and ends stops whose time has come.
    pub(crate) fn observe(
        &mut self,
        now: Timestamp,
        observations: &Observations,
        limit: Option<rules::Futility>,
    ) {
        let Some(limit) = limit else { return };
        if let Some(signal) = self.pending.filter(|_| self.gone)
            && let (Some(trial), Some(seen)) =
                (&mut self.trials[signal as usize], observations.get(signal))
        {
            self.pending = None;
            let gained = seen.available.saturating_sub(trial.before);
            trial.in_a_row = if gained < trial.least_gain {
                trial.in_a_row + 1
            } else {
                0
            };
            if trial.in_a_row >= limit.evictions {
                trial.stopped = Some((now, seen.available));
            }
        }
        for (signal, seen) in observations.iter() {
            let slot = &mut self.trials[signal as usize];
            if let Some(Trial {
                stopped: Some((since, then)),
                least_gain,
                ..
            }) = slot
            {
                let moved = seen.available.abs_diff(*then) >= least_gain.unsigned_abs().max(1);
                if moved || now.duration_since(*since) >= limit.pause {
                    *slot = None;
                }
            }
        }
    }

    /// How many futile evictions in a row have stopped this signal, if they have.
    pub(crate) fn stopped(&self, signal: Signal) -> Option<u32> {
        let trial = self.trials[signal as usize]?;
        trial.stopped.map(|_| trial.in_a_row)
    }

    /// Every stopped signal and since when.
    pub(crate) fn stops(&self) -> impl Iterator<Item = (Signal, Timestamp)> {
        Signal::ALL.into_iter().filter_map(|signal| {
            let (since, _) = self.trials[signal as usize]?.stopped?;
            Some((signal, since))
        })
    }
}
