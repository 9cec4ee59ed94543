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
    Cause, ConditionMap, Decision, NodeCondition, Observation, Observations, Owner, Returned,
    Signal, SignalMap, StarvedResource, Threshold, ThresholdValue, Usage, containerfs,
    decision::{ActingThreshold, Eviction, OwnerCount, PassedOver, RankedPod, Spared, Withheld},
    departures::{Chosen, Command, Departures},
    forecast::Forecast,
    futility::Futile,
    growth::Growth,
    message::{eviction_message, weighed_message},
    rank::Ranking,
    relief::Eligible,
    returning::Returning,
    rules::{Figures, MemoryAndSwap, Rules},
    step::{Step, UsageNeed},
    unevictable::Unevictable,
    watched::{Watched, is_newer, join_memory_and_swap},
    why::{Choice, passed_over, why},
};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;
use std::collections::BTreeSet;

mod awaited;
mod cause;
mod dialogue;
mod leaving;
mod limits;
mod pauses;
mod reclaim;
mod restored;
mod withheld;

use awaited::Awaited;
pub use dialogue::Answer;
use pauses::Pauses;
use reclaim::ReclaimState;

/// Makes the decisions, cycle by cycle. It holds all state; the caller passes in the time.
#[derive(Debug, Clone)]
pub struct Housekeeper {
    rules: Rules,
    watched: Vec<Watched>,
    first_cycle: bool,
    condition_seen: ConditionMap<Option<Timestamp>>,
    condition_active: ConditionMap<bool>,
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
    returning: Returning,
    /// Conditions held because of owners whose pods come back, and for each whether its taint is set, too.
    held: ConditionMap<Option<bool>>,
    /// Pods that exceed a limit of their own on local storage and are never evicted, at the last check.
    over_own_limit: Vec<PassedOver>,
}

impl Housekeeper {
    /// Starts with no memory of earlier cycles.
    pub fn new(rules: Rules) -> Self {
        let watched = containerfs::effective(&rules.thresholds, rules.layout);
        Self {
            watched: watched.into_iter().map(Watched::from).collect(),
            first_cycle: true,
            condition_seen: ConditionMap::default(),
            condition_active: ConditionMap::default(),
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
            returning: Returning::default(),
            held: ConditionMap::default(),
            over_own_limit: Vec::new(),
            rules,
        }
    }

    /// Applies changed rules; the state of thresholds that stay the same is kept.
    pub fn reconfigure(&mut self, rules: Rules) {
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
        self.forget_own_limits();
        self.last.clone_from(observations);
        self.forecast.observe(now, observations);
        self.note_crossings(observations);
        self.pauses.end(now);
        self.update_conditions(now);
        if self.rules.local_storage_capacity_isolation {
            Step::LocalStorage
        } else {
            self.pressure()
        }
    }

    fn update_conditions(&mut self, now: Timestamp) {
        let mut met = ConditionMap::<bool>::default();
        for watched in &self.watched {
            let signal = watched.threshold.signal;
            let condition = signal.condition().filter(|_| !self.is_harmless(signal));
            if let Some(condition) = condition.filter(|_| watched.first_observed.is_some()) {
                met[condition] = true;
            }
        }
        for (condition, met) in met {
            if met {
                self.condition_seen[condition] = Some(now);
            }
            let recent = self.condition_seen[condition].is_some_and(|seen| {
                now.duration_since(seen) < self.rules.pressure_transition_period
            });
            self.condition_active[condition] =
                recent || (met && self.rules.condition_holds_while_met);
        }
        let backoff = self.rules.owner_backoff();
        self.held = backoff
            .map(|backoff| self.returning.held(now, backoff))
            .unwrap_or_default();
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
            let last = waits || pauses || self.switched_off(signal).is_some();
            (last, order)
        };
        self.watched
            .iter()
            .filter(|watched| watched.acting)
            .min_by_key(rank)
    }

    /// The decision for the acting threshold; `None` if none acts. At most one pod per cycle (S1-044).
    pub fn decide(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Option<Decision> {
        let ranked = self.rank_acting(now, pods, usage)?;
        self.choose(now, pods, usage, ranked)
    }

    /// All pods in the order of the acting threshold; `None` if none acts.
    fn rank_acting(
        &self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Option<Vec<RankedPod>> {
        let acting = self.acting_threshold()?;
        Some(self.rank(now, acting.threshold.signal, pods, usage))
    }

    /// Chooses the victim from the ranking.
    fn choose(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        ranked: Vec<RankedPod>,
    ) -> Option<Decision> {
        let acting = self.acting_threshold()?;
        let signal = acting.threshold.signal;
        self.update_terminating(now, signal, pods, &ranked);
        self.note_growth(now, signal, (pods, usage), &ranked);
        let shares = self.shares(now, &acting, pods, &ranked);
        let candidates = self.candidates(&acting, usage, &ranked);
        let withheld = self.withheld(now, &acting, pods, (&ranked, &candidates), &shares);
        self.at_own_limits[signal] = matches!(withheld, Some(Withheld::OwnLimits { .. }));
        let mut eligible = Eligible::of(signal, &ranked, &shares, &self.rules);
        eligible.pods.retain(|pod| candidates.allow(pod));
        // Where relief is not required, it may still be that no pod gives anything back.
        let withheld = withheld.or_else(|| {
            let growth = None;
            let none = eligible.pods.is_empty();
            none.then_some(Withheld::NoRelief { shares, growth })
        });
        let in_vain = self.stopped_by_futility(signal);
        // If the last evictions gained too little, pods that are smaller than the missing amount would not help either.
        let first = eligible.first(&shares, in_vain.is_some());
        let victim = first.filter(|_| withheld.is_none());
        let others = |pod: &&&RankedPod| Some(pod.index) != victim.map(|victim| victim.index);
        let runner_up = victim.and_then(|_| eligible.pods.iter().find(others).copied());
        let hard = acting.threshold.is_hard();
        let eviction = victim.map(|victim| self.eviction(&acting, victim, pods, usage));
        let victim_pod = victim.map(|victim| pods[victim.index].borrow());
        if let Some((victim, pod)) = victim.zip(victim_pod) {
            let uid = &pod.uid;
            // The kubelet never waits for a disk to show the freed space.
            let ours = self.rules.credit_terminating_pods;
            let available = ours.then_some(acting.observed.available);
            self.departures.choose(victim.gain.map(|held| Chosen {
                uid: uid.clone(),
                signal,
                held,
                available,
            }));
            let seen = (&acting, shares.short.value());
            self.futile.chosen(now, seen, uid, self.rules.futility);
            self.last_action = Some(now);
            self.relieved = Some(now);
        }
        Some(Decision {
            time: now,
            kind: if hard { Cause::Hard } else { Cause::Soft },
            signal: signal.as_str(),
            resource: signal.resource(),
            why: candidates.why_alone(signal, victim).unwrap_or_else(|| {
                why(
                    &acting,
                    &Choice {
                        victim,
                        runner_up,
                        small: eligible.small,
                        in_vain,
                    },
                    withheld.as_ref(),
                    &shares,
                    &ranked,
                )
            }) + starts_again(victim_pod),
            runner_up: runner_up.map(|pod| pod.pod.to_string()),
            expected_gain: victim.and_then(|victim| victim.gain),
            uid: victim_pod.map(|pod| pod.uid.clone()),
            owner: victim_pod.and_then(|pod| self.owner_of(now, pod)),
            passed_over: passed_over::largest(signal, &ranked, victim),
            threshold: Some(acting),
            eviction,
            withheld,
            ranked,
            // Pressure is a share of time and no sum of the pods' usage.
            shares: Some(shares).filter(|_| !signal.is_pressure()),
        })
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

    fn eviction(
        &self,
        acting: &ActingThreshold,
        victim: &RankedPod,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Eviction {
        let pod = pods[victim.index].borrow();
        let used = usage.of(victim.index);
        let (message, annotations) = if self.rules.messages_name_what_counted {
            weighed_message(acting, (victim, self.rules.layout), pod, used)
        } else {
            eviction_message(acting, pod, used)
        };
        Eviction {
            index: victim.index,
            pod: victim.pod.to_string(),
            grace_period_seconds: self
                .rules
                .grace_period_seconds(pod, acting.threshold.is_hard()),
            reason: "Evicted",
            message,
            annotations,
            disruption_target: true,
        }
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

    /// The number of consecutive evictions that gained too little, if it stops this signal.
    fn stopped_by_futility(&self, signal: Signal) -> Option<u32> {
        self.futile.stopped(signal)
    }

    /// Signals whose evictions are stopped because they did not help: since when, and until when at most.
    pub fn futile_stops(&self) -> impl Iterator<Item = (Signal, Timestamp, Timestamp)> {
        let pause = self
            .rules
            .futility
            .map_or(SignedDuration::ZERO, |futility| futility.pause);
        let stopped = self
            .futile
            .stops()
            .filter(|(signal, _)| self.futility_stops(*signal));
        stopped.map(move |(signal, since)| {
            (signal, since, since.saturating_add(pause).unwrap_or(since))
        })
    }

    /// Conditions that hold, sorted by name (S1-030, S1-031), including those held because of owners whose pods
    /// come back.
    pub fn conditions(&self) -> impl Iterator<Item = NodeCondition> {
        self.held
            .iter()
            .filter(|(condition, held)| self.presses(*condition) || held.is_some())
            .map(|(condition, _)| condition)
    }

    /// Those conditions that also keep new pods off the node.
    pub fn taints(&self) -> impl Iterator<Item = NodeCondition> {
        self.held
            .iter()
            .filter(|(condition, held)| self.presses(*condition) || **held == Some(true))
            .map(|(condition, _)| condition)
    }

    /// Whether this condition holds because of its own cause, not only because of owners whose pods come back.
    pub fn presses(&self, condition: NodeCondition) -> bool {
        self.condition_active[condition]
    }

    /// Notes that a pod of this owner was evicted for this condition, and returns the consequence if it was not the
    /// first. At start-up the caller repeats the evictions of the history in their order.
    pub fn evicted(
        &mut self,
        time: Timestamp,
        owner: &Owner,
        condition: NodeCondition,
    ) -> Option<Returned> {
        let backoff = self.rules.owner_backoff()?;
        self.returning
            .evicted(time, owner.clone(), condition, backoff);
        let mut returned = self.returning.returned(time, backoff).into_iter();
        returned.find(|one| one.owner == *owner && one.condition == condition)
    }

    /// Owners whose pods came back, for which a condition is held at `now`.
    pub fn returned(&self, now: Timestamp) -> Vec<Returned> {
        let backoff = self.rules.owner_backoff();
        backoff.map_or_else(Vec::new, |backoff| self.returning.returned(now, backoff))
    }

    /// The pod's owner, with the number that this eviction would have.
    fn owner_of(&self, now: Timestamp, pod: &Pod) -> Option<OwnerCount> {
        let backoff = self.rules.owner_backoff()?;
        let owner = Owner::of(pod)?;
        let evictions = self.returning.count(&owner, now, backoff);
        Some(OwnerCount { owner, evictions })
    }

    /// Thresholds that are met and past their grace period, whether or not their observation is new.
    pub fn thresholds_met(&self) -> impl Iterator<Item = &Threshold> {
        self.watched
            .iter()
            .filter(|watched| watched.held)
            .map(|watched| &watched.threshold)
    }

    /// Since when the latest of the acting hard thresholds is met. Only thresholds count that are met for as long
    /// as they demand and whose evictions are neither off nor stopped.
    pub fn hard_since(&self) -> Option<Timestamp> {
        let since = |watched: &Watched| {
            let Threshold { signal, .. } = watched.threshold;
            let may_act = watched.held
                && self.switched_off(signal).is_none()
                && !self.is_harmless(signal)
                && !self.at_own_limits[signal];
            let first = watched.first_observed.filter(|_| may_act)?;
            let since = first.checked_add(watched.threshold.acts_after()).ok();
            // Before the end of its reclaim a threshold chooses no pod, and others may have chosen one meanwhile.
            let reclaimed = self.reclaim_for(signal).and(self.reclaim.ended);
            since.max(reclaimed)
        };
        let hard = self
            .watched
            .iter()
            .filter(|watched| watched.threshold.is_hard());
        hard.filter_map(since).max()
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
}

/// The consequence for a victim that its kubelet starts again.
fn starts_again(victim: Option<&Pod>) -> &'static str {
    if victim.is_some_and(Pod::is_from_file) {
        "; as a static pod it is started again from its file, until that is moved away"
    } else {
        ""
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
