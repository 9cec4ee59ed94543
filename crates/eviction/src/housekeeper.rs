//! The housekeeper: one cycle after another, from what the node has left to who must go.
//!
//! ```text
//! observe ── Rest
//!    │────── LocalStorage ── check_local_storage ── evicted: the cycle is over (S1-034)
//!    │                              │ nobody
//!    │                           pressure
//!    │────── Reclaim ── reclaimed ── Rest
//!    │                     │
//!    └────── Rank ─────────┴── decide ── Decision
//! ```

use crate::{
    Cause, Decision, NodeCondition, Observation, Observations, Owner, Returned, Signal,
    StarvedResource, Threshold, ThresholdValue, Usage, containerfs,
    decision::{ActingThreshold, Eviction, LocalStorageLimit, OwnerCount, RankedPod, Unreachable},
    dying::Dying,
    futility::Futile,
    local_storage,
    message::eviction_message,
    rank::Ranking,
    returning::Returning,
    rules::{MemoryAndSwap, Rules},
    watched::{Watched, is_met, is_newer, join_memory_and_swap},
    why::why,
};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::collections::BTreeMap;

mod withheld;

/// What the shell is asked for next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing to do before the next look.
    Rest,
    /// Usage of the pods that have limits on local storage, for [`Housekeeper::check_local_storage`].
    LocalStorage,
    /// Free what can be freed without ending a pod, then look again and call [`Housekeeper::reclaimed`].
    Reclaim(Reclaim),
    /// Usage of every pod, for [`Housekeeper::decide`].
    Rank(UsageNeed),
}

/// Node-level reclaim, in this order (S1-039 to S1-041).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reclaim {
    /// The signal it is for.
    pub signal: Signal,
    /// Delete dead containers.
    pub dead_containers: bool,
    /// Then delete unused images.
    pub unused_images: bool,
}

/// What must be known of every pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageNeed {
    /// For this signal.
    pub signal: Signal,
    /// Whether it acts at once.
    pub hard: bool,
}

/// Decides, cycle by cycle. All state is in here; time comes in as a value.
#[derive(Debug, Clone)]
pub struct Housekeeper {
    rules: Rules,
    watched: Vec<Watched>,
    first_cycle: bool,
    condition_seen: [Option<Timestamp>; NodeCondition::ALL.len()],
    condition_active: [bool; NodeCondition::ALL.len()],
    last: Observations,
    dying: Dying,
    unreachable: BTreeMap<String, Unreachable>,
    /// When a pod was last chosen.
    last_action: Option<Timestamp>,
    /// When a pod was last chosen or seen gone: what averages tell of the time before is over.
    relieved: Option<Timestamp>,
    /// A pod is gone since the last look.
    has_gone: bool,
    futile: Futile,
    returning: Returning,
    /// Conditions held for owners whose pods come back, and whether each keeps new pods away.
    held: [Option<bool>; NodeCondition::ALL.len()],
}

impl Housekeeper {
    /// Starts with no memory of earlier cycles.
    pub fn new(rules: Rules) -> Self {
        let watched = containerfs::worked(&rules.thresholds, rules.layout);
        Self {
            watched: watched.into_iter().map(Watched::from).collect(),
            first_cycle: true,
            condition_seen: [None; 3],
            condition_active: [false; 3],
            last: Observations::default(),
            dying: Dying::default(),
            unreachable: BTreeMap::new(),
            last_action: None,
            relieved: None,
            has_gone: false,
            futile: Futile::default(),
            returning: Returning::default(),
            held: [None; 3],
            rules,
        }
    }

    /// Takes on changed rules; thresholds that stay the same keep their history.
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
    }

    /// The rules in force.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// First half of a cycle: what is met, which conditions hold, what acts.
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
                && tells_of_now(value, now, self.relieved)
        };
        let limit = self.rules.futility;
        self.futile.observe(now, observations, is_new, limit);
        for watched in &mut self.watched {
            let Threshold { signal, value, .. } = watched.threshold;
            watched.look(observations.of(signal, value).as_ref(), waiting);
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
        self.update_conditions(now);
        self.last.clone_from(observations);
        if self.rules.local_storage_capacity_isolation {
            Step::LocalStorage
        } else {
            self.pressure()
        }
    }

    fn update_conditions(&mut self, now: Timestamp) {
        let mut met = [false; NodeCondition::ALL.len()];
        for watched in &self.watched {
            let condition = watched.threshold.signal.condition();
            if let Some(condition) = condition.filter(|_| watched.first_observed.is_some()) {
                met[condition as usize] = true;
            }
        }
        for (index, met) in met.into_iter().enumerate() {
            if met {
                self.condition_seen[index] = Some(now);
            }
            let recent = self.condition_seen[index].is_some_and(|seen| {
                now.duration_since(seen) < self.rules.pressure_transition_period
            });
            self.condition_active[index] = recent || (met && self.rules.condition_holds_while_met);
        }
        let backoff = self.rules.owner_backoff();
        self.held = backoff.map_or([None; 3], |backoff| self.returning.held(now, backoff));
    }

    /// Every pod that exceeds one of its own limits on local storage; many may go in one cycle (S1-072).
    pub fn check_local_storage(
        &mut self,
        now: Timestamp,
        pods: &[Pod],
        usage: &Usage,
    ) -> Vec<Decision> {
        let mut decisions = Vec::new();
        for (index, pod) in pods.iter().enumerate() {
            let layout = self.rules.layout;
            let exceeded = usage
                .of(index)
                .and_then(|used| local_storage::exceeded(pod, used, layout.dedicated_image_fs));
            let Some((limit, message)) = exceeded else {
                continue;
            };
            let under_way =
                self.dying.contains(&pod.uid) || self.unreachable.contains_key(&pod.uid);
            if self.rules.spares(pod).is_none() && !under_way {
                self.last_action = Some(now);
                decisions.push(self.local_storage_decision(now, index, pod, limit, message));
            }
        }
        decisions
    }

    fn local_storage_decision(
        &self,
        now: Timestamp,
        index: usize,
        pod: &Pod,
        limit: LocalStorageLimit,
        message: String,
    ) -> Decision {
        Decision {
            time: now,
            kind: Cause::LocalStorage,
            signal: limit.as_str(),
            resource: StarvedResource::EphemeralStorage,
            threshold: None,
            why: format!("{pod} exceeds a limit of its own: {}", message.trim_end()),
            eviction: Some(Eviction {
                index,
                pod: pod.full_name(),
                grace_period_seconds: self.rules.hard_grace_period_seconds,
                reason: "Evicted",
                message,
                annotations: BTreeMap::new(),
                disruption_target: false,
            }),
            uid: Some(pod.uid.clone()),
            owner: None,
            withheld: None,
            ranked: Vec::new(),
            runner_up: None,
            expected_gain: None,
        }
    }

    /// Second half of a cycle, once nobody had to go for a limit of its own.
    pub fn pressure(&self) -> Step {
        let Some(need) = self.need() else {
            return Step::Rest;
        };
        match self.reclaim_for(need.signal) {
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

    /// S1-035: memory, then hard before soft, then the order of the configuration. With ours hard is before soft whatever
    /// the resource, and devices are last: a signal for which no pod can go must not hide one for which a pod can. For the
    /// same reason one for which nobody may go now stands back.
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
            (self.switched_off(signal).is_some(), order)
        };
        self.watched
            .iter()
            .filter(|watched| watched.acting)
            .min_by_key(rank)
    }

    fn reclaim_for(&self, signal: Signal) -> Option<Reclaim> {
        use Signal::{ImagefsAvailable, ImagefsInodesFree, NodefsAvailable, NodefsInodesFree};
        let image = matches!(signal, ImagefsAvailable | ImagefsInodesFree);
        let node = matches!(signal, NodefsAvailable | NodefsInodesFree);
        let disk = signal.condition() == Some(NodeCondition::DiskPressure);
        let layout = self.rules.layout;
        let (dead_containers, unused_images) =
            match (layout.dedicated_image_fs, layout.split_container_fs) {
                _ if !disk => (false, false),
                (true, true) => (!image, image),
                (true, false) => (!node, !node),
                (false, _) => (true, true),
            };
        (dead_containers || unused_images).then_some(Reclaim {
            signal,
            dead_containers,
            unused_images,
        })
    }

    /// After a node-level reclaim: enough when no threshold at all is met any more, grace ignored and min-reclaim
    /// added (S1-037). `None` where no fresh look was possible: then pods are next.
    pub fn reclaimed(&self, fresh: Option<&Observations>) -> Step {
        let still_met = |watched: &Watched| {
            fresh.is_none_or(|fresh| {
                let Threshold { signal, value, .. } = watched.threshold;
                is_met(&watched.threshold, fresh.of(signal, value).as_ref(), true)
            })
        };
        match self.need() {
            Some(need) if self.watched.iter().any(still_met) => Step::Rank(need),
            _ => Step::Rest,
        }
    }

    /// Who goes for the acting threshold; `None` where none acts. At most one pod a cycle (S1-044).
    pub fn decide(&mut self, now: Timestamp, pods: &[Pod], usage: &Usage) -> Option<Decision> {
        let acting = self.acting_threshold()?;
        let signal = acting.threshold.signal;
        let ranked = self.rank(signal, pods, usage);
        self.see_dying(now, signal, pods, &ranked);
        let withheld = self.withheld(now, &acting, pods, &ranked);
        let mut candidates = ranked.iter().filter(|pod| pod.spared.is_none());
        let victim = candidates.next().filter(|_| withheld.is_none());
        let runner_up = victim.and_then(|_| candidates.next());
        let hard = acting.threshold.is_hard();
        let eviction = victim.map(|victim| self.eviction(&acting, victim, pods, usage));
        if let Some(victim) = victim {
            let uid = &pods[victim.index].uid;
            self.dying.choose(uid, signal, victim.gives_back(signal));
            self.futile.chosen(now, &acting, uid, self.rules.futility);
            self.last_action = Some(now);
            self.relieved = Some(now);
        }
        Some(Decision {
            time: now,
            kind: if hard { Cause::Hard } else { Cause::Soft },
            signal: signal.as_str(),
            resource: signal.resource(),
            why: why(&acting, victim, runner_up, withheld.as_ref()),
            runner_up: runner_up.map(|pod| pod.pod.to_string()),
            expected_gain: victim.and_then(|victim| victim.gives_back(signal)),
            uid: victim.map(|victim| pods[victim.index].uid.clone()),
            owner: victim.and_then(|victim| self.owner_of(now, &pods[victim.index])),
            threshold: Some(acting),
            eviction,
            withheld,
            ranked,
        })
    }

    fn acting_threshold(&self) -> Option<ActingThreshold> {
        let watched = self.acting()?;
        let Threshold { signal, value, .. } = watched.threshold;
        let observed = self.last.of(signal, value)?;
        Some(ActingThreshold {
            quantity: watched.threshold.value.at(observed.capacity),
            observed,
            first_observed_at: watched.first_observed?,
            threshold: watched.threshold.clone(),
        })
    }

    fn eviction(
        &self,
        acting: &ActingThreshold,
        victim: &RankedPod,
        pods: &[Pod],
        usage: &Usage,
    ) -> Eviction {
        let pod = &pods[victim.index];
        let (message, annotations) = eviction_message(acting, pod, usage.of(victim.index));
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

    /// The shell has begun to end this pod and will have killed it by `kill_at`; to be said again when that changes.
    pub fn dying(&mut self, uid: &str, kill_at: Timestamp) {
        let until = self.dying.begin(uid, kill_at);
        self.futile.due(uid, until);
    }

    /// What pods on their way out hold, while nobody else may go yet: as long as they give back they are waited for.
    pub fn watch_dying(&mut self, now: Timestamp, signal: Signal, pods: &[Pod], usage: &Usage) {
        let rows = self.with_ranking(signal, |ranking| ranking.of_dying(pods, usage));
        self.see_dying(now, signal, pods, &rows);
    }

    fn see_dying(&mut self, now: Timestamp, signal: Signal, pods: &[Pod], rows: &[RankedPod]) {
        for (uid, until) in self.dying.observe(now, signal, pods, rows) {
            self.futile.due(&uid, until);
        }
    }

    /// Somebody else, such as the kubelet, has begun to end a pod: what was observed before says nothing any more.
    pub fn acted_elsewhere(&mut self, now: Timestamp) {
        self.last_action = Some(now);
        self.relieved = Some(now);
    }

    /// The pod's last process is gone; the next observation shows what that gained.
    pub fn gone(&mut self, uid: &str) {
        if self.dying.end(uid) {
            self.has_gone = true;
            self.futile.due(uid, Timestamp::MIN);
        }
    }

    /// The pod could not be ended and lives on; that says nothing on whether ending it would have helped.
    pub fn not_dying(&mut self, uid: &str) {
        self.dying.end(uid);
        self.futile.lives_on(uid);
    }

    /// The pods, by UID, that the shell could not end if they were chosen, and why; they are ranked and passed over.
    pub fn set_unreachable(&mut self, pods: BTreeMap<String, Unreachable>) {
        self.unreachable = pods;
    }

    /// Every pod in the order in which it would go for this signal now, without deciding anything.
    pub fn rank(&self, signal: Signal, pods: &[Pod], usage: &Usage) -> Vec<RankedPod> {
        self.with_ranking(signal, |ranking| ranking.of(pods, usage))
    }

    fn with_ranking<T>(&self, signal: Signal, work: impl FnOnce(&Ranking<'_>) -> T) -> T {
        let dying = self.dying.uids();
        work(&Ranking {
            signal,
            capacity: self
                .last
                .get(signal)
                .map_or(0, |observed| observed.capacity),
            rules: &self.rules,
            dying: &dying,
            unreachable: &self.unreachable,
        })
    }

    /// Signals for which evictions are stopped because they did not help: since when, and until when at most.
    pub fn futile_stops(&self) -> impl Iterator<Item = (Signal, Timestamp, Timestamp)> {
        let pause = self
            .rules
            .futility
            .map_or(SignedDuration::ZERO, |futility| futility.pause);
        self.futile.stops().map(move |(signal, since)| {
            (signal, since, since.saturating_add(pause).unwrap_or(since))
        })
    }

    /// Conditions that hold, sorted by name (S1-030, S1-031); those too that are held for owners whose pods come back.
    pub fn conditions(&self) -> impl Iterator<Item = NodeCondition> {
        let held = |condition: NodeCondition| self.held[condition as usize].is_some();
        NodeCondition::ALL
            .into_iter()
            .filter(move |condition| self.presses(*condition) || held(*condition))
    }

    /// Those of them that keep new pods away.
    pub fn taints(&self) -> impl Iterator<Item = NodeCondition> {
        let closed = |condition: NodeCondition| self.held[condition as usize] == Some(true);
        NodeCondition::ALL
            .into_iter()
            .filter(move |condition| self.presses(*condition) || closed(*condition))
    }

    /// Whether this one holds for its cause, and not only for owners whose pods come back.
    pub fn presses(&self, condition: NodeCondition) -> bool {
        self.condition_active[condition as usize]
    }

    /// A pod of this owner is gone, for this condition; what follows where it is not the first one. Also what is known
    /// from before a restart, in the order in which it happened.
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

    /// Owners whose pods came back, for which the node is held at this time.
    pub fn returned(&self, now: Timestamp) -> Vec<Returned> {
        let backoff = self.rules.owner_backoff();
        backoff.map_or_else(Vec::new, |backoff| self.returning.returned(now, backoff))
    }

    /// Whose pod this is, and which of its to be evicted here lately.
    fn owner_of(&self, now: Timestamp, pod: &Pod) -> Option<OwnerCount> {
        let backoff = self.rules.owner_backoff()?;
        let owner = Owner::of(pod)?;
        let evictions = self.returning.count(&owner, now, backoff);
        Some(OwnerCount { owner, evictions })
    }

    /// Thresholds past their grace, before the question of freshness.
    pub fn thresholds_met(&self) -> impl Iterator<Item = &Threshold> {
        self.watched
            .iter()
            .filter(|watched| watched.held)
            .map(|watched| &watched.threshold)
    }

    /// Since when the last of the hard thresholds may end pods: crossed for as long as it has to be, and none whose evictions
    /// are off or stopped.
    pub fn hard_since(&self) -> Option<Timestamp> {
        let since = |watched: &Watched| {
            let Threshold { signal, .. } = watched.threshold;
            let may_act = watched.held && self.switched_off(signal).is_none();
            let first = watched.first_observed.filter(|_| may_act)?;
            first.checked_add(watched.threshold.acts_after()).ok()
        };
        let hard = self.watched.iter();
        let hard = hard.filter(|watched| watched.threshold.is_hard());
        hard.filter_map(since).max()
    }

    /// Every crossed threshold and since when.
    pub fn first_observed(&self) -> impl Iterator<Item = (&Threshold, Timestamp)> {
        self.watched
            .iter()
            .filter_map(|watched| Some((&watched.threshold, watched.first_observed?)))
    }

    /// Every threshold at work, the generated ones included.
    pub fn thresholds(&self) -> impl Iterator<Item = &Threshold> {
        self.watched.iter().map(|watched| &watched.threshold)
    }
}

/// An average looks back: after a relief it tells of now only once its window has passed. Figures of a moment always do.
fn tells_of_now(value: ThresholdValue, now: Timestamp, relieved: Option<Timestamp>) -> bool {
    let ThresholdValue::Pressure(limit) = value else {
        return true;
    };
    relieved.is_none_or(|relieved| now.duration_since(relieved) >= limit.average.window())
}
