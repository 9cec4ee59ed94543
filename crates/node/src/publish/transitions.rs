//! Log lines other than decisions: the start of the daemon, conditions raised and cleared, and soft thresholds that
//! will act soon.

use super::{
    Publish,
    startup::{self, Begun, amount},
    status::configured,
};
use crate::fact::{Fact, Look};
use crate::pause::Pause;
use evictd_eviction::{ConditionMap, Threshold, pressure};

/// Logs what has changed since the last cycle.
#[derive(Debug)]
pub struct Transitions {
    /// Taken by the first cycle.
    begun: Option<Begun>,
    raised: ConditionMap<bool>,
    /// For each threshold, in their order, whether it is crossed.
    crossed: Vec<bool>,
    paused: Option<Pause>,
}

impl Transitions {
    /// No condition is raised yet.
    pub fn new(begun: Begun) -> Self {
        Self {
            begun: Some(begun),
            raised: ConditionMap::default(),
            crossed: Vec::new(),
            paused: None,
        }
    }

    fn tell_pause(&mut self, look: &Look<'_>) {
        if self.paused.as_ref() == look.paused {
            return;
        }
        if let Some(pause) = look.paused {
            tracing::warn!("PAUSED {pause}; no pod is terminated");
        } else {
            tracing::warn!("the pause is over");
        }
        self.paused = look.paused.cloned();
    }

    fn tell_conditions(&mut self, look: &Look<'_>) {
        let conditions = look.housekeeper.conditions();
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
    fn tell_soft_thresholds(&mut self, look: &Look<'_>) {
        let housekeeper = look.housekeeper;
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
            let left = left(look, threshold);
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
        if let Fact::Looked(look) = fact {
            self.looked(look);
        }
    }
}

impl Transitions {
    fn looked(&mut self, look: &Look<'_>) {
        if let Some(begun) = self.begun.take() {
            startup::log(&begun, look);
        }
        self.tell_pause(look);
        self.tell_conditions(look);
        self.tell_soft_thresholds(look);
    }
}

/// `: 90Mi are left`, where that is known.
fn left(look: &Look<'_>, threshold: &Threshold) -> String {
    let seen = look
        .sample
        .observations
        .of(threshold.signal, threshold.value);
    let told = seen.map(|seen| {
        if threshold.signal.is_pressure() {
            let stalled = pressure::percent(pressure::WHOLE - seen.available);
            format!(": it is {stalled}")
        } else {
            format!(": {} left", amount(threshold.signal, seen.available))
        }
    });
    told.unwrap_or_default()
}
