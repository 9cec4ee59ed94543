//! The node's conditions: when the cause of each was last seen, and which owners hold one because their pods come back.

use crate::{Returned, returning::Returning, rules::Rules};
use evictd_decision::{Owner, OwnerCount};
use evictd_pod::Pod;
use evictd_signals::{ConditionMap, NodeCondition};
use jiff::Timestamp;

/// Which conditions hold, and why.
#[derive(Debug, Clone, Default)]
pub(super) struct Conditions {
    /// When the cause was last seen.
    seen: ConditionMap<Option<Timestamp>>,
    /// Whether the cause holds the condition.
    active: ConditionMap<bool>,
    returning: Returning,
    /// Conditions held because of owners whose pods come back, and for each whether its taint is set, too.
    held: ConditionMap<Option<bool>>,
}

impl Conditions {
    /// Notes for which conditions a threshold is met now.
    pub(super) fn update(&mut self, now: Timestamp, met: ConditionMap<bool>, rules: &Rules) {
        for (condition, met) in met {
            if met {
                self.seen[condition] = Some(now);
            }
            let recent = self.seen[condition]
                .is_some_and(|seen| now.duration_since(seen) < rules.pressure_transition_period);
            self.active[condition] = recent || (met && rules.condition_holds_while_met);
        }
        let backoff = rules.owner_backoff();
        // Computed anew in each cycle, because the time alone ends what an owner holds.
        self.held = backoff
            .map(|backoff| self.returning.held(now, backoff))
            .unwrap_or_default();
    }

    /// Takes over when an earlier run last saw the cause of a condition. True if its transition period is not over.
    pub(super) fn restore(
        &mut self,
        now: Timestamp,
        condition: NodeCondition,
        seen: Timestamp,
        rules: &Rules,
    ) -> bool {
        // A clock that was set back does not lengthen the period.
        let seen = seen.min(now);
        let holds = now.duration_since(seen) < rules.pressure_transition_period;
        if holds {
            // A cause that this run has seen already is newer than that of an earlier run.
            let known = &mut self.seen[condition];
            *known = (*known).max(Some(seen));
            self.active[condition] = true;
        }
        holds
    }

    /// In the first cycle: the conditions that hold only because an earlier run held them.
    pub(super) fn restored(&self, now: Timestamp) -> ConditionMap<bool> {
        ConditionMap::from_fn(|condition| {
            let seen = self.seen[condition];
            self.active[condition] && seen.is_some_and(|seen| seen < now)
        })
    }

    /// When the cause of each condition was last seen.
    pub(super) const fn cause_seen(&self) -> &ConditionMap<Option<Timestamp>> {
        &self.seen
    }

    /// The conditions whose own cause holds them.
    pub(super) const fn active(&self) -> &ConditionMap<bool> {
        &self.active
    }

    /// The conditions that hold, and for each whether it also keeps new pods off the node.
    pub(super) fn all(&self) -> impl Iterator<Item = (NodeCondition, bool)> {
        self.held.iter().filter_map(|(condition, held)| {
            let active = self.active[condition];
            let holds = active || held.is_some();
            holds.then_some((condition, active || *held == Some(true)))
        })
    }

    /// Counts an eviction of this owner's pods; returns the consequence if it was not the first.
    pub(super) fn evicted(
        &mut self,
        time: Timestamp,
        owner: &Owner,
        condition: NodeCondition,
        rules: &Rules,
    ) -> Option<Returned> {
        let backoff = rules.owner_backoff()?;
        self.returning
            .evicted(time, owner.clone(), condition, backoff);
        let mut returned = self.returning.returned(time, backoff).into_iter();
        returned.find(|one| one.owner == *owner && one.condition == condition)
    }

    /// Owners whose pods came back, for which a condition is held at `now`.
    pub(super) fn returned(&self, now: Timestamp, rules: &Rules) -> Vec<Returned> {
        let backoff = rules.owner_backoff();
        backoff.map_or_else(Vec::new, |backoff| self.returning.returned(now, backoff))
    }

    /// The pod's owner, with the number that this eviction would have.
    pub(super) fn owner_of(&self, now: Timestamp, pod: &Pod, rules: &Rules) -> Option<OwnerCount> {
        let backoff = rules.owner_backoff()?;
        let owner = Owner::of(pod)?;
        let evictions = self.returning.count(&owner, now, backoff);
        Some(OwnerCount { owner, evictions })
    }
}
