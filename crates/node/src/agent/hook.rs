//! The pre-kill hook of terminations: which of them it runs before, and each pod only once.

use crate::hook::{Hook, HookRequest};
use evictd_departures::Departure;
use evictd_eviction::Housekeeper;
use evictd_signals::Signal;
use jiff::Timestamp;
use std::collections::VecDeque;

/// How many pods are remembered. A pod whose eviction is blocked is chosen again some seconds later.
const REMEMBERED: usize = 64;

/// The configured hook, and the pods that it has run for.
#[derive(Default)]
pub(super) struct Hooks {
    hook: Option<Hook>,
    done: VecDeque<String>,
}

impl Hooks {
    pub(super) fn set(&mut self, hook: Option<Hook>) {
        self.hook = hook;
    }

    /// Lets the hook run before this departure, if there is time.
    pub(super) fn allow(&self, departure: &mut Departure, housekeeper: &Housekeeper) {
        let Some(hook) = &self.hook else {
            return;
        };
        if self.done.contains(&departure.uid) {
            return;
        }
        let Some(signal) = departure.purpose.signal() else {
            return;
        };
        let now = departure.since;
        let exhausted_at = exhausted_at(now, signal, housekeeper);
        let hard_beside = housekeeper.hard_acts_beside(signal);
        departure.allow_hook(now, hook.budget(), exhausted_at, hard_beside);
    }

    /// The hook that runs before this departure, with its request.
    pub(super) fn begin(&mut self, departure: &Departure) -> Option<(Hook, HookRequest)> {
        let budget = departure.hook?;
        let request = HookRequest {
            id: departure.id.clone(),
            pod: departure.pod.clone(),
            uid: departure.uid.clone(),
            cgroup: departure.cgroup.clone()?,
            signal: departure.purpose.signal()?.to_string(),
            kind: departure.purpose.cause()?.as_str(),
            budget_milliseconds: u64::try_from(budget.as_millis()).unwrap_or(0),
        };
        let hook = self.hook.clone()?;
        if self.done.len() == REMEMBERED {
            self.done.pop_front();
        }
        self.done.push_back(departure.uid.clone());
        Some((hook, request))
    }
}

/// By the trend alone: between two samples a little noise looks like a fall within a second. A jump while the hook runs ends
/// it with the next sample.
fn exhausted_at(now: Timestamp, signal: Signal, housekeeper: &Housekeeper) -> Option<Timestamp> {
    let left = housekeeper.forecast().exhausted_in(now, signal)?;
    now.saturating_add(left).ok()
}
