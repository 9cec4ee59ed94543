//! One threshold from cycle to cycle: crossed, held, acting.

use crate::{Observation, Threshold, ThresholdValue, containerfs::Worked};
use evictd_pod::Quantity;
use jiff::Timestamp;

/// State of one threshold between cycles.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) threshold: Threshold,
    generated: bool,
    /// Since when it is met without a break (S1-029).
    pub(crate) first_observed: Option<Timestamp>,
    /// Met and past its grace in the last cycle, so that min-reclaim holds it (S1-028).
    pub(crate) held: bool,
    /// Held, and its figure is a new one (S1-033).
    pub(crate) acting: bool,
}

impl From<Worked> for Watched {
    fn from(worked: Worked) -> Self {
        Self {
            threshold: worked.threshold,
            generated: worked.generated,
            first_observed: None,
            held: false,
            acting: false,
        }
    }
}

impl Watched {
    /// Takes in what is seen now; `waiting` leaves the generated thresholds out (S1-014).
    pub(crate) fn look(
        &mut self,
        now: Timestamp,
        observed: Option<&Observation>,
        waiting: bool,
        new: bool,
    ) {
        let crossed = !(waiting && self.generated) && is_met(&self.threshold, observed, false);
        let met = crossed || (self.held && is_met(&self.threshold, observed, true));
        self.first_observed = met.then(|| self.first_observed.unwrap_or(now));
        self.held = self
            .first_observed
            .is_some_and(|first| now.duration_since(first) >= self.threshold.grace_period);
        self.acting = self.held && new;
    }
}

/// S1-033
pub(crate) fn is_newer(observed: &Observation, last: Option<&Observation>) -> bool {
    match (observed.time, last) {
        (Some(time), Some(last)) => last.time.is_none_or(|last| time > last),
        _ => true,
    }
}

/// S1-004, S1-022, S1-027
pub(crate) fn is_met(
    threshold: &Threshold,
    observed: Option<&Observation>,
    with_min_reclaim: bool,
) -> bool {
    let Some(observed) = observed else {
        return false;
    };
    let at = |value: ThresholdValue| value.at(observed.capacity);
    let mut quantity = at(threshold.value);
    if let Some(min_reclaim) = threshold.min_reclaim.filter(|_| with_min_reclaim) {
        quantity += at(min_reclaim);
    }
    quantity > Quantity::count(observed.available)
}
