//! Thresholds that act while most of the node is free. Probably they name the usable amount instead of the available
//! one.

use super::{
    startup::follows,
    words::{amount, configured},
};
use crate::fact::Cycle;
use evictd_signals::{Observation, Threshold};

/// Such thresholds, with the capacity that shows it.
#[derive(Debug, Default)]
pub(super) struct Inverted {
    found: Vec<(Threshold, Observation)>,
}

impl Inverted {
    /// Compares the thresholds in force with the node; returns whether others are inverted now. Allocates nothing while
    /// nothing changes.
    pub(super) fn update(&mut self, cycle: &Cycle<'_>) -> bool {
        let observations = &cycle.sample.observations;
        let now = || {
            let thresholds = cycle.housekeeper.thresholds();
            thresholds.filter_map(|threshold| {
                let seen = observations.get(threshold.signal)?;
                threshold.inverted(seen).map(|_| (threshold, seen))
            })
        };
        let known = self.found.iter().map(|(threshold, _)| threshold);
        // A signal that is not observed for a moment is no news.
        let blind = |threshold: &Threshold| observations.get(threshold.signal).is_none();
        if known.clone().eq(now().map(|(threshold, _)| threshold)) || known.clone().any(blind) {
            return false;
        }
        let found = now().map(|(threshold, seen)| (threshold.clone(), *seen));
        self.found = found.collect();
        true
    }

    /// A sentence each, without thresholds that only follow others.
    pub(super) fn sentences(&self) -> impl Iterator<Item = String> {
        let all: Vec<&Threshold> = self.found.iter().map(|(threshold, _)| threshold).collect();
        self.found
            .iter()
            .filter(move |(threshold, _)| !follows(threshold, &all))
            .map(|(threshold, seen)| sentence(threshold, seen))
    }
}

fn sentence(threshold: &Threshold, seen: &Observation) -> String {
    let signal = threshold.signal;
    let used = threshold.inverted(seen).unwrap_or_default();
    let (used, all) = (amount(signal, used), amount(signal, seen.capacity));
    format!(
        "{signal}<{} acts while more than {used} of {all} is in use; a threshold is what must be left, not what may be used",
        configured(threshold)
    )
}
