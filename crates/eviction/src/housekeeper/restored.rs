//! Conditions that an earlier run of the daemon held.

use super::Housekeeper;
use crate::{ConditionMap, NodeCondition};
use jiff::Timestamp;

impl Housekeeper {
    /// Takes over when an earlier run last saw the cause of a condition. True if the condition still holds: its
    /// transition period is not over (S1-031).
    pub fn restore(&mut self, now: Timestamp, condition: NodeCondition, seen: Timestamp) -> bool {
        // A clock that was set back does not lengthen the period.
        let seen = seen.min(now);
        let period = self.rules.pressure_transition_period;
        let holds = now.duration_since(seen) < period;
        if holds {
            let known = &mut self.condition_seen[condition];
            *known = (*known).max(Some(seen));
            self.condition_active[condition] = true;
        }
        holds
    }

    /// In the first cycle: the conditions that hold only because an earlier run held them.
    pub fn restored(&self, now: Timestamp) -> ConditionMap<bool> {
        ConditionMap::from_fn(|condition| {
            let seen = self.condition_seen[condition];
            self.condition_active[condition] && seen.is_some_and(|seen| seen < now)
        })
    }

    /// When the cause of each condition was last seen.
    pub fn cause_seen(&self) -> &ConditionMap<Option<Timestamp>> {
        &self.condition_seen
    }
}
