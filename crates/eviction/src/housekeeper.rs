//! The housekeeper decides, cycle by cycle, which pod to evict from a node that runs short.
//!
//! A cycle is a dialogue: the housekeeper asks for what it needs ([`Step`]), its caller answers ([`Answer`]), until
//! the step is `Rest`:
//!
//! ```text
//! begin ── Rest
//!    │──── LocalStorage ── a pod exceeds a limit of its own: the cycle is over (S1-034)
//!    │            │ no pod does
//!    │──── Reclaim ── enough is free: Rest
//!    │            │── under way, and waited for: the next signal that does not wait for it, else Rest
//!    │            │── under way, but too little or too late: Rank
//!    │──── Watch: earlier victims may still free enough; no pod is chosen
//!    │            │
//!    └──── Rank ──┴── Decision
//! ```
//!
//! The daemon, `simulate`, `explain` and the demo all use this code.

use crate::{
    Returned, containerfs,
    futility::Futile,
    rank::Ranking,
    rules::{Figures, MemoryAndSwap, Rules},
    step::{Reclaim, Step},
    unevictable::Unevictable,
    watched::{Watched, is_met, is_newer, join_memory_and_swap},
};
use evictd_decision::{ActingThreshold, Decision, Owner, PassedOver, RankedPod, Spared};
use evictd_departures::{Command, Departures};
use evictd_pod::Pod;
use evictd_signals::{
    ConditionMap, NodeCondition, Observation, Observations, Signal, SignalMap, StarvedResource,
    Threshold, ThresholdValue, forecast::Forecast,
};
use evictd_usage::{Growth, Usage, UsageNeed};
use jiff::Timestamp;
use std::borrow::Borrow;
use std::collections::BTreeSet;

mod awaited;
mod cause;
mod choice;
mod conditions;
mod dialogue;
mod limits;
mod pauses;
mod reclaim;

use awaited::Awaited;
use cause::is_harmless;
use conditions::Conditions;
pub use dialogue::Answer;
use limits::LimitCheck;
use pauses::Pauses;
use reclaim::{ReclaimState, reclaim_for};

/// Makes the decisions, cycle by cycle. It holds all state; the caller passes in the time.
#[derive(Debug, Clone)]
pub struct Housekeeper {
    rules: Rules,
    watched: Vec<Watched>,
    first_cycle: bool,
    conditions: Conditions,
    last: Observations,
    forecast: Forecast,
    unevictable: Unevictable,
    departures: Departures,
    /// Commands for departures that resulted from the current cycle.
    commands: Vec<Command>,
    /// UIDs of pods without a cgroup of their own that the daemon may write to.
    without_cgroup: BTreeSet<String>,
    /// Dry run or pause.
    terminations_off: bool,
    /// Why decisions are not made at present.
    pauses: Pauses,
    reclaim: ReclaimState,
    /// Signals for which the last decision found only pods that wait at limits of their own.
    at_own_limits: SignalMap<bool>,
    awaited: Awaited,
    /// When a pod was last chosen.
    last_action: Option<Timestamp>,
    /// When a pod was last chosen or seen to have ended. Averages over the time before no longer describe the node.
    relieved: Option<Timestamp>,
    /// Whether a pod has ended since the last cycle.
    has_gone: bool,
    futile: Futile,
    /// Usage of pods in the summaries of a simulation; a daemon compares its own walks.
    pub(crate) growth: Growth,
    limits: LimitCheck,
}

impl Housekeeper {
    /// Starts with no memory of earlier cycles.
    pub fn new(rules: Rules) -> Self {
        let watched = containerfs::effective(&rules.thresholds, rules.layout);
        Self {
            watched: watched.into_iter().map(Watched::from).collect(),
            first_cycle: true,
            conditions: Conditions::default(),
            last: Observations::default(),
            forecast: Forecast::default(),
            unevictable: Unevictable::default(),
            departures: Departures::default(),
            commands: Vec::new(),
            without_cgroup: BTreeSet::new(),
            terminations_off: false,
            pauses: Pauses::default(),
            reclaim: ReclaimState::default(),
            at_own_limits: SignalMap::default(),
            awaited: Awaited::default(),
            last_action: None,
            relieved: None,
            has_gone: false,
            futile: Futile::default(),
            growth: Growth::default(),
            limits: LimitCheck::default(),
            rules,
        }
    }

    /// Applies changed rules; the state of thresholds that stay the same is kept.
    pub fn reconfigure(&mut self, rules: Rules) {
        // A threshold that is new, or whose value changed, starts without a grace period that has passed.
        let mut next = Self::new(rules);
        for watched in &mut next.watched {
            let same = |old: &&Watched| old.threshold == watched.threshold;
            if let Some(old) = self.watched.iter().find(same) {
                *watched = old.clone();
            }
        }
        self.rules = next.rules;
        self.watched = next.watched;
        self.pauses = Pauses::default();
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// When the first decision that evicted no pod may be repeated; `None` if none of them waits.
    pub fn next_decision(&self, now: Timestamp) -> Option<Timestamp> {
        self.pauses.next_end(now)
    }

    /// How fast each signal falls, and when it is exhausted at that rate.
    pub fn forecast(&self) -> &Forecast {
        &self.forecast
    }

    /// First half of a cycle: which thresholds are met, which conditions hold, which threshold acts.
    pub fn observe(&mut self, now: Timestamp, observations: &Observations) -> Step {
        let waiting = self.first_cycle && self.rules.generated_thresholds_wait;
        self.first_cycle = false;
        let last_action = self
            .last_action
            .filter(|_| self.rules.samples_follow_actions);
        // Averages from before a pod ended still contain its waiting, so they are not new.
        if std::mem::take(&mut self.has_gone) {
            self.relieved = Some(now);
        }
        let is_new = |signal, value, observed: &Observation| {
            is_newer(observed, self.last.get(signal))
                && observed.time.is_none_or(|time| Some(time) > last_action)
                && is_current(value, now, self.relieved)
        };
        let limit = self.rules.futility;
        self.futile.observe(now, observations, is_new, limit);
        for watched in &mut self.watched {
            let Threshold { signal, value, .. } = watched.threshold;
            watched.compare(observations.of(signal, value).as_ref(), waiting);
        }
        if self.rules.memory_and_swap == MemoryAndSwap::Both {
            join_memory_and_swap(&mut self.watched, observations);
        }
        for watched in &mut self.watched {
            let Threshold { signal, value, .. } = watched.threshold;
            let observed = observations.of(signal, value);
            let new = observed.is_some_and(|observed| is_new(signal, value, &observed));
            watched.conclude(now, new);
        }
        for (signal, found) in &mut self.at_own_limits {
            let held = |one: &Watched| one.held && one.threshold.signal == signal;
            *found &= self.watched.iter().any(held);
        }
        // From here on the last observation is this one; the comparisons above needed the one before.
        self.last.clone_from(observations);
        self.forecast.observe(now, observations);
        self.awaited.note_crossings(&self.watched, observations);
        self.pauses.end(now);
        let met = self.conditions_met();
        self.conditions.update(now, met, &self.rules);
        if self.rules.local_storage_capacity_isolation {
            Step::LocalStorage
        } else {
            self.pressure()
        }
    }

    fn conditions_met(&self) -> ConditionMap<bool> {
        let mut met = ConditionMap::<bool>::default();
        for watched in &self.watched {
            let signal = watched.threshold.signal;
            let condition = signal
                .condition()
                .filter(|_| !is_harmless(&self.last, signal));
            if let Some(condition) = condition.filter(|_| watched.first_observed.is_some()) {
                met[condition] = true;
            }
        }
        met
    }

    /// Second half of a cycle, if no pod exceeded a limit of its own.
    pub fn pressure(&self) -> Step {
        let Some(need) = self.need() else {
            return Step::Rest;
        };
        match self.reclaim_for(need.signal) {
            Some(_) if self.reclaim.waits(need.signal) => Step::Rest,
            Some(_) if self.is_read_only(need.signal) => Step::Rank(need),
            Some(reclaim) => Step::Reclaim(reclaim),
            None => Step::Rank(need),
        }
    }

    fn need(&self) -> Option<UsageNeed> {
        let acting = self.acting()?;
        Some(UsageNeed {
            signal: acting.threshold.signal,
            hard: acting.threshold.is_hard(),
        })
    }

    /// The threshold to act on. The kubelet's order: memory, then hard before soft, then the order of the configuration
    /// (S1-035). evictd's order: hard before soft whatever the resource, I/O last. A signal whose decision waits, or
    /// for which no pod may be evicted at present, comes after the others. Otherwise it would hide one that has a
    /// victim.
    fn acting(&self) -> Option<&Watched> {
        let rank = |watched: &&Watched| {
            let signal = watched.threshold.signal;
            let not_memory = signal.resource() != StarvedResource::Memory;
            let soft = !watched.threshold.is_hard();
            let order = if self.rules.hard_thresholds_first {
                (signal.resource() == StarvedResource::Io, soft, not_memory)
            } else {
                (false, not_memory, soft)
            };
            let waits = self.reclaim.waits(signal) || self.awaited.waits(signal);
            let pauses = self.pauses.hold(signal, watched.threshold.is_hard());
            // A signal for which nothing can be done now must not hide one that has a victim.
            let last = waits || pauses || self.switched_off(signal).is_some();
            (last, order)
        };
        self.watched
            .iter()
            .filter(|watched| watched.acting)
            .min_by_key(rank)
    }

    fn acting_threshold(&self) -> Option<ActingThreshold> {
        let watched = self.acting()?;
        let Threshold { signal, value, .. } = watched.threshold;
        let observed = self.last.of(signal, value)?;
        let quantity = value.at(observed.capacity);
        let counts = self.rules.figures == Figures::Evictd && !signal.counts_bytes();
        Some(ActingThreshold {
            // The kubelet prints a percentage of a count like bytes (S1-054).
            quantity: if counts && matches!(value, ThresholdValue::Percentage(_)) {
                signal.quantity(quantity.value())
            } else {
                quantity
            },
            observed,
            first_observed_at: watched.first_observed?,
            threshold: watched.threshold.clone(),
        })
    }

    /// Sets the UIDs of the pods that cannot be terminated because no cgroup of theirs is known; they are ranked
    /// and passed over. Call this when the pods may have changed: a decision that was postponed is then
    /// reconsidered.
    pub fn set_without_cgroup(&mut self, pods: BTreeSet<String>) {
        self.without_cgroup = pods;
        self.pauses.forget_victims();
    }

    /// Every pod in the order in which it would be evicted for this signal now. Decides nothing.
    pub fn rank(
        &self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Vec<RankedPod> {
        self.with_ranking(now, signal, |ranking| ranking.of(pods, usage))
    }

    fn spared(&self, now: Timestamp, pod: &Pod) -> Option<Spared> {
        self.with_ranking(now, Signal::NodefsAvailable, |ranking| ranking.spared(pod))
    }

    fn with_ranking<T>(
        &self,
        now: Timestamp,
        signal: Signal,
        work: impl FnOnce(&Ranking<'_>) -> T,
    ) -> T {
        work(&Ranking {
            now,
            signal,
            capacity: self
                .last
                .get(signal)
                .map_or(0, |observed| observed.capacity),
            rules: &self.rules,
            departures: &self.departures,
            without_cgroup: &self.without_cgroup,
        })
    }

    /// Thresholds that are met and past their grace period, whether or not their observation is new.
    pub fn thresholds_met(&self) -> impl Iterator<Item = &Threshold> {
        self.watched
            .iter()
            .filter(|watched| watched.held)
            .map(|watched| &watched.threshold)
    }

    /// Since when the latest of the acting hard thresholds is met.
    pub fn hard_since(&self) -> Option<Timestamp> {
        self.acting_hard().map(|(_, since)| since).max()
    }

    /// Whether a hard threshold acts that an eviction for this signal does not relieve. Signals of disks may be of different
    /// filesystems.
    pub fn hard_acts_beside(&self, signal: Signal) -> bool {
        let is_of_disk = signal.condition() == Some(NodeCondition::DiskPressure);
        let is_relieved = |other: Signal| {
            other == signal || (!is_of_disk && other.resource() == signal.resource())
        };
        self.acting_hard().any(|(other, _)| !is_relieved(other))
    }

    /// The signals of the acting hard thresholds, and since when these are met. Only thresholds count that are met for as
    /// long as they demand and whose evictions are neither off nor stopped.
    fn acting_hard(&self) -> impl Iterator<Item = (Signal, Timestamp)> {
        let acts = |watched: &Watched| {
            let Threshold { signal, .. } = watched.threshold;
            let may_act = watched.held
                && self.switched_off(signal).is_none()
                && !is_harmless(&self.last, signal)
                && !self.at_own_limits[signal];
            let first = watched.first_observed.filter(|_| may_act)?;
            let since = first.checked_add(watched.threshold.acts_after()).ok();
            // Before the end of its reclaim a threshold chooses no pod, and others may have chosen one meanwhile.
            let reclaimed = self.reclaim_for(signal).and(self.reclaim.ended);
            Some((signal, since.max(reclaimed)?))
        };
        let hard = self
            .watched
            .iter()
            .filter(|watched| watched.threshold.is_hard());
        hard.filter_map(acts)
    }

    /// Every crossed threshold and since when it is crossed.
    pub fn first_observed(&self) -> impl Iterator<Item = (&Threshold, Timestamp)> {
        self.watched
            .iter()
            .filter_map(|watched| Some((&watched.threshold, watched.first_observed?)))
    }

    /// Every threshold in force, including generated ones.
    pub fn thresholds(&self) -> impl Iterator<Item = &Threshold> + Clone {
        self.watched.iter().map(|watched| &watched.threshold)
    }

    /// Follows the kubelet of this version, major and minor, where the rules are the kubelet's.
    pub fn follow_kubelet(&mut self, version: (u32, u32)) {
        self.rules.follow_kubelet(version);
    }

    /// Every pod that exceeds one of its own limits on local storage; one cycle may evict many (S1-072). A decision
    /// without an eviction is about a pod that is never evicted.
    pub fn check_local_storage(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Vec<Decision> {
        let mut limits = std::mem::take(&mut self.limits);
        let decisions = limits.check(now, (pods, usage), &self.rules, |pod| self.spared(now, pod));
        self.limits = limits;
        if decisions.iter().any(|one| one.eviction.is_some()) {
            self.last_action = Some(now);
        }
        decisions
    }

    /// Pods that exceeded a limit of their own at the last check and are never evicted.
    pub fn over_own_limit(&self) -> &[PassedOver] {
        self.limits.over()
    }

    /// Since when the decision on a signal waits for figures of usage.
    pub fn awaits_figures(&self) -> Option<(Signal, Timestamp)> {
        self.awaited.first()
    }

    /// The reclaim that may lift this signal, if any can.
    fn reclaim_for(&self, signal: Signal) -> Option<Reclaim> {
        reclaim_for(&self.rules, signal)
    }

    /// Takes over when an earlier run last saw the cause of a condition. True if the condition still holds: its
    /// transition period is not over (S1-031).
    pub fn restore(&mut self, now: Timestamp, condition: NodeCondition, seen: Timestamp) -> bool {
        self.conditions.restore(now, condition, seen, &self.rules)
    }

    /// In the first cycle: the conditions that hold only because an earlier run held them.
    pub fn restored(&self, now: Timestamp) -> ConditionMap<bool> {
        self.conditions.restored(now)
    }

    /// When the cause of each condition was last seen.
    pub fn cause_seen(&self) -> &ConditionMap<Option<Timestamp>> {
        self.conditions.cause_seen()
    }

    /// Conditions that hold, sorted by name (S1-030, S1-031), including those held because of owners whose pods
    /// come back.
    pub fn conditions(&self) -> impl Iterator<Item = NodeCondition> {
        self.conditions.all().map(|(condition, _)| condition)
    }

    /// Those conditions that also keep new pods off the node.
    pub fn taints(&self) -> impl Iterator<Item = NodeCondition> {
        let tainting = self.conditions.all().filter(|(_, taints)| *taints);
        tainting.map(|(condition, _)| condition)
    }

    /// Whether this condition holds because of its own cause, not only because of owners whose pods come back.
    pub fn presses(&self, condition: NodeCondition) -> bool {
        self.conditions.active()[condition]
    }

    /// Notes that a pod of this owner was evicted for this condition, and returns the consequence if it was not the
    /// first. At start-up the caller repeats the evictions of the history in their order.
    pub fn evicted(
        &mut self,
        time: Timestamp,
        owner: &Owner,
        condition: NodeCondition,
    ) -> Option<Returned> {
        self.conditions.evicted(time, owner, condition, &self.rules)
    }

    /// Owners whose pods came back, for which a condition is held at `now`.
    pub fn returned(&self, now: Timestamp) -> Vec<Returned> {
        self.conditions.returned(now, &self.rules)
    }

    /// Whether this reclaim may end: no threshold is met that it can lift, ignoring grace periods and adding the minimum
    /// reclaim.
    pub fn disks_relieved(&self, seen: &Observations, by: &Reclaim) -> bool {
        let lifts = |signal: Signal| {
            self.reclaim_for(signal).is_some_and(|its| {
                (its.dead_containers && by.dead_containers)
                    || (its.unused_images && by.unused_images)
            })
        };
        let still_met = |watched: &Watched| {
            let Threshold { signal, value, .. } = watched.threshold;
            let observed = seen.of(signal, value);
            lifts(signal) && is_met(&watched.threshold, observed.as_ref(), true)
        };
        !self.watched.iter().any(still_met)
    }

    /// Whether less than a tenth of a disk's capacity is left above one of its thresholds, or nothing.
    pub fn is_disk_near(&self, seen: &Observations) -> bool {
        let mut disks = self
            .thresholds()
            .filter(|one| self.reclaim_for(one.signal).is_some());
        disks.any(|Threshold { signal, value, .. }| {
            seen.of(*signal, *value).is_some_and(|seen| {
                let above = seen
                    .available
                    .saturating_sub(value.at(seen.capacity).value());
                above < seen.capacity / 10
            })
        })
    }

    /// By how many bytes memory is short of a soft threshold that is met and does not act yet, minimum reclaim included.
    /// `None` if none is, or if a hard one is met: then there is no time.
    pub fn cold_memory_wanted(&self, now: Timestamp, seen: &Observations) -> Option<u64> {
        let met = self.first_observed();
        let memory: Vec<_> = met
            .filter(|(threshold, _)| threshold.signal == Signal::MemoryAvailable)
            .collect();
        if memory.iter().any(|(threshold, _)| threshold.is_hard()) {
            return None;
        }
        let short = |(threshold, since): &(&Threshold, Timestamp)| {
            let waits = now.duration_since(*since) < threshold.acts_after();
            let observed = seen.of(threshold.signal, threshold.value)?;
            let to_reach = threshold.to_reach(observed.capacity).value();
            let short = u64::try_from(to_reach.saturating_sub(observed.available)).ok()?;
            waits.then_some(short)
        };
        memory.iter().filter_map(short).max()
    }

    /// Takes the commands that resulted from the current cycle.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Every pod that must leave.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// The same, for changes that are not events.
    pub fn departures_mut(&mut self) -> &mut Departures {
        &mut self.departures
    }

    /// Dry run or pause: decisions are made, but no pod is terminated.
    pub fn set_terminations_off(&mut self, terminations_off: bool) {
        if self.terminations_off != terminations_off {
            self.pauses.forget_victims();
        }
        self.terminations_off = terminations_off;
    }
}

/// Whether the figure describes the node after the last relief. An average does only once its whole window is
/// later; a momentary figure always does.
fn is_current(value: ThresholdValue, now: Timestamp, relieved: Option<Timestamp>) -> bool {
    let ThresholdValue::Pressure(limit) = value else {
        return true;
    };
    relieved.is_none_or(|relieved| now.duration_since(relieved) >= limit.average.window())
}
