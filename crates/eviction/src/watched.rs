//! The state of one threshold from cycle to cycle: crossed, held, acting.

use crate::containerfs::EffectiveThreshold;
use evictd_pod::Quantity;
use evictd_signals::{Observation, Observations, Signal, Threshold};
use jiff::Timestamp;

#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a step of its own from crossed to acting"
)]
/// State of one threshold between cycles.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) threshold: Threshold,
    generated: bool,
    /// Since when it is met without interruption (S1-029).
    pub(crate) first_observed: Option<Timestamp>,
    /// Met in this cycle, regardless of other thresholds.
    pub(crate) met: bool,
    /// Met and past its grace period in the last cycle, so that the minimum reclaim applies (S1-028).
    pub(crate) held: bool,
    /// Held, and its observation is new (S1-033).
    pub(crate) acting: bool,
}

impl From<EffectiveThreshold> for Watched {
    fn from(effective: EffectiveThreshold) -> Self {
        Self {
            threshold: effective.threshold,
            generated: effective.generated,
            first_observed: None,
            met: false,
            held: false,
            acting: false,
        }
    }
}

impl Watched {
    /// Compares with the current observation; `waiting` leaves out generated thresholds (S1-014).
    pub(crate) fn compare(&mut self, observed: Option<&Observation>, waiting: bool) {
        // In the first cycle of a kubelet generated thresholds have no observation to compare with.
        let crossed = !(waiting && self.generated) && is_met(&self.threshold, observed, false);
        self.met = crossed || (self.held && is_met(&self.threshold, observed, true));
    }

    /// Updates the state once it is known which thresholds count as met.
    pub(crate) fn conclude(&mut self, now: Timestamp, new: bool) {
        self.first_observed = self.met.then(|| self.first_observed.unwrap_or(now));
        self.held = self
            .first_observed
            .is_some_and(|first| now.duration_since(first) >= self.threshold.acts_after());
        self.acting = self.held && new;
    }
}

/// "Memory low and swap low" (users #7): thresholds on memory and on swap count as met only if both are, hard and
/// soft ones separately. Without swap, or without a threshold on it, memory counts alone.
pub(crate) fn join_memory_and_swap(watched: &mut [Watched], observations: &Observations) {
    if observations.get(Signal::SwapAvailable).is_none() {
        return;
    }
    let memory = [Signal::MemoryAvailable, Signal::AllocatableMemoryAvailable];
    for hard in [true, false] {
        let low = |signals: &[Signal]| {
            let of = |one: &&Watched| {
                one.threshold.is_hard() == hard && signals.contains(&one.threshold.signal)
            };
            let found = watched.iter().filter(of).map(|one| one.met);
            found.reduce(|low, another| low || another)
        };
        let (Some(memory_low), Some(swap_low)) = (low(&memory), low(&[Signal::SwapAvailable]))
        else {
            continue;
        };
        for one in watched.iter_mut() {
            if one.threshold.is_hard() != hard {
                continue;
            }
            // Memory is short only if both are: with free swap the kernel can still make room.
            match one.threshold.signal {
                Signal::SwapAvailable => one.met &= memory_low,
                signal if memory.contains(&signal) => one.met &= swap_low,
                _ => {}
            }
        }
    }
}

/// Whether the observation is newer than the last one (S1-033).
pub(crate) fn is_newer(observed: &Observation, last: Option<&Observation>) -> bool {
    match (observed.time, last) {
        (Some(time), Some(last)) => last.time.is_none_or(|last| time > last),
        _ => true,
    }
}

/// Whether the threshold is met; the minimum reclaim is added to its value if `with_min_reclaim` (S1-004, S1-022, S1-027).
pub(crate) fn is_met(
    threshold: &Threshold,
    observed: Option<&Observation>,
    with_min_reclaim: bool,
) -> bool {
    let Some(observed) = observed else {
        return false;
    };
    let quantity = if with_min_reclaim {
        threshold.to_reach(observed.capacity)
    } else {
        threshold.value.at(observed.capacity)
    };
    quantity > Quantity::count(observed.available)
}
