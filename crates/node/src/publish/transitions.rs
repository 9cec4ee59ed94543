//! Log lines other than decisions: the start of the daemon, conditions raised and cleared, and soft thresholds that
//! will act soon.

use super::{
    Publish,
    inverted::Inverted,
    startup::{self, StartInfo},
    words::{amount, configured},
};
use crate::fact::{Cycle, Fact};
use crate::pause::Pause;
use evictd_signals::{ConditionMap, Threshold, pressure};

/// Logs the changes since the last cycle.
#[derive(Debug)]
pub(crate) struct Transitions {
    /// Taken by the first cycle.
    start_info: Option<StartInfo>,
    raised: ConditionMap<bool>,
    /// For each threshold, in their order, whether it is crossed.
    crossed: Vec<bool>,
    paused: Option<Pause>,
    inverted: Inverted,
}

impl Transitions {
    /// No condition is raised yet.
    pub(crate) fn new(start_info: StartInfo) -> Self {
        Self {
            start_info: Some(start_info),
            raised: ConditionMap::default(),
            crossed: Vec::new(),
            paused: None,
            inverted: Inverted::default(),
        }
    }

    fn log_pause(&mut self, cycle: &Cycle<'_>) {
        if self.paused.as_ref() == cycle.paused {
            return;
        }
        if let Some(pause) = cycle.paused {
            tracing::warn!("PAUSED {pause}; no pod is terminated");
        } else {
            tracing::warn!("the pause is over");
        }
        self.paused = cycle.paused.cloned();
    }

    fn log_conditions(&mut self, cycle: &Cycle<'_>) {
        let conditions = cycle.housekeeper.conditions();
        let raised: ConditionMap<bool> = conditions.map(|one| (one, true)).collect();
        let before = std::mem::replace(&mut self.raised, raised);
        for (condition, now) in raised {
            if before[condition] == now {
                continue;
            }
            let (name, message) = (condition.as_str(), condition.message(now));
            if now {
                tracing::warn!(EVICTD_CONDITION = name, "{name} is raised: {message}");
            } else {
                tracing::info!(EVICTD_CONDITION = name, "{name} is cleared: {message}");
            }
        }
    }

    /// Logs crossed soft thresholds only: for hard ones a decision follows at once, for soft ones only after the
    /// grace period.
    fn log_soft_thresholds(&mut self, cycle: &Cycle<'_>) {
        let housekeeper = cycle.housekeeper;
        let count = housekeeper.thresholds().count();
        // After a new configuration all states are new.
        if self.crossed.len() != count {
            self.crossed.clear();
            self.crossed.resize(count, false);
        }
        for (before, threshold) in self.crossed.iter_mut().zip(housekeeper.thresholds()) {
            let mut met = housekeeper.first_observed();
            let now = met.any(|(met, _)| met == threshold);
            if std::mem::replace(before, now) == now || threshold.is_hard() {
                continue;
            }
            let (signal, value) = (threshold.signal.as_str(), configured(threshold));
            let left = left(cycle, threshold);
            if now {
                let grace = threshold.acts_after();
                tracing::warn!(
                    EVICTD_SIGNAL = signal,
                    "{signal} has crossed its soft threshold of {value}{left}; pods are evicted if that lasts for {grace:#}"
                );
            } else {
                tracing::info!(
                    EVICTD_SIGNAL = signal,
                    "{signal} is above its soft threshold of {value} again{left}"
                );
            }
        }
    }
}

impl Publish for Transitions {
    fn publish(&mut self, fact: &Fact<'_>) {
        if let Fact::CycleEnded(cycle) = fact {
            self.cycle_ended(cycle);
        }
    }
}

impl Transitions {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        if let Some(start_info) = self.start_info.take() {
            startup::log(&start_info, cycle);
            // The agent has logged them when it restored them.
            self.raised = cycle.housekeeper.restored(cycle.now);
        }
        if self.inverted.update(cycle) {
            for sentence in self.inverted.sentences() {
                tracing::warn!("{sentence}");
            }
        }
        self.log_pause(cycle);
        self.log_conditions(cycle);
        self.log_soft_thresholds(cycle);
    }
}

/// `: 90Mi are left`, where that is known.
fn left(cycle: &Cycle<'_>, threshold: &Threshold) -> String {
    let seen = cycle
        .sample
        .observations
        .of(threshold.signal, threshold.value);
    let warning = seen.map(|seen| {
        if threshold.signal.is_pressure() {
            let stalled = pressure::percent(pressure::WHOLE - seen.available);
            format!(": it is {stalled}")
        } else {
            format!(": {} left", amount(threshold.signal, seen.available))
        }
    });
    warning.unwrap_or_default()
}
