//! The dialogue of one cycle, step by step, including the waits.

use super::{Housekeeper, reclaim::waits_for};
use crate::{
    step::Step,
    watched::{Watched, is_met},
};
use evictd_decision::{Decision, RankedPod, Withheld};
use evictd_departures::{
    CLEANUP_TIMEOUT, Command, Context, Departure, Ending, Event, Stage, after,
};
use evictd_pod::Pod;
use evictd_reclaim::{Outlook, Wait};
use evictd_signals::{ConditionMap, Observations, Signal, SignalMap, StarvedResource, Threshold};
use evictd_usage::{Usage, UsageNeed};
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;

/// A decision that evicts no pod is not repeated before this time.
const REPEAT_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// The same while unevictable usage grows: that may stop at any moment, and then an eviction helps.
pub(super) const REPEAT_AFTER_GROWTH: SignedDuration = SignedDuration::from_millis(200);
/// The same for disk signals, which need a walk through directories: the interval of the kubelet (S1-017).
const REPEAT_AFTER_DISK: SignedDuration = SignedDuration::from_secs(10);

/// A step that takes more than this number of repetitions to exhaust the signal is no sign of the end.
const MOST_STEPS: i128 = 20;

/// The answer to a [`Step`].
#[derive(Debug, Clone)]
pub enum Answer<'a, P> {
    /// Usage of the pods with limits on local storage; `None` if this check is not due.
    LocalStorage(Option<(&'a [P], &'a Usage)>),
    /// An observation after a reclaim; `None` if no fresh one was possible.
    Reclaimed(Option<&'a Observations>),
    /// A reclaim is under way, which may free this much yet. If the signal waits for it, a later cycle asks again; other
    /// signals act meanwhile, in this cycle too.
    Reclaiming(Outlook),
    /// Usage of every pod.
    Measured(Signal, &'a [P], &'a Usage),
    /// Usage of the terminating pods.
    Watched(UsageNeed, &'a [P], &'a Usage),
    /// Usage of every pod.
    Ranked {
        /// The need of the step.
        need: UsageNeed,
        /// The pods in the order of `usage`.
        pods: &'a [P],
        /// Usage of each pod.
        usage: &'a Usage,
        /// A fresh observation, if measuring took so long that earlier victims may have ended meanwhile.
        fresh: Option<&'a Observations>,
    },
    /// The same, for pods that [`Housekeeper::rank_for`] has ranked already.
    InOrder {
        /// The need of the step.
        need: UsageNeed,
        /// The pods in the order of `usage`.
        pods: &'a [P],
        /// Usage of each pod.
        usage: &'a Usage,
        /// The ranking, first victim first.
        ranked: Vec<RankedPod>,
    },
    /// The answer is not known yet; the next cycle asks again.
    NotYet,
}

impl Housekeeper {
    /// Begins a cycle with new observations and returns the first step. A hard threshold cuts the grace periods of
    /// victims of soft thresholds short, before another pod is chosen.
    pub fn begin(&mut self, now: Timestamp, observations: &Observations) -> Step {
        // First what was noted for one cycle ends: waits for a reclaim and for another victim.
        self.reclaim.next_cycle();
        self.pauses.next_cycle();
        let step = self.observe(now, observations);
        if let Some(cut) = self.cut_graces(now) {
            let cut = self.on_event(now, cut);
            // Victims end earlier now, so decisions that found no victim are worth repeating.
            if !cut.is_empty() {
                self.pauses.forget_victims();
            }
            self.commands.extend(cut);
        }
        // After the cuts, because a pod whose grace period was cut is waited for from now on.
        self.departures.count_cycle(now);
        let next = self.on_event(now, Event::Next);
        self.commands.extend(next);
        self.wait(now, step)
    }

    /// The event that shortens grace periods; `None` while no hard threshold is met.
    fn cut_graces(&self, now: Timestamp) -> Option<Event> {
        Some(Event::CutGraces {
            hard_since: self.hard_since()?,
            // The kubelet's rules credit no pod that is leaving, so none is too late.
            exhausted_at: self
                .hard_exhausted_at(now)
                .filter(|_| self.rules.credit_terminating_pods),
        })
    }

    /// When the first signal of an acting hard threshold is exhausted, where known. The faster of the trend and the
    /// last step counts: a jump may be the beginning of a trend, and there is no time to wait for it.
    fn hard_exhausted_at(&self, now: Timestamp) -> Option<Timestamp> {
        let acting = self.watched.iter().filter(|watched| {
            let Threshold { signal, .. } = watched.threshold;
            let acts = watched.threshold.is_hard() && watched.held;
            acts && !signal.is_pressure() && self.switched_off(signal).is_none()
        });
        let exhausted_at = |watched: &Watched| {
            let Threshold { signal, .. } = watched.threshold;
            let by_trend = self.forecast.exhausted_in(now, signal);
            let by_trend = by_trend.and_then(|left| now.saturating_add(left).ok());
            by_trend
                .into_iter()
                .chain(self.exhausted_at_last_step(signal))
                .min()
        };
        acting.filter_map(exhausted_at).min()
    }

    /// When the signal is exhausted if it falls on as it did between its last two observations. A step that takes
    /// little of the remaining amount is not significant.
    fn exhausted_at_last_step(&self, signal: Signal) -> Option<Timestamp> {
        let left = i128::from(self.last.get(signal)?.available.max(0));
        let step = self.forecast.last_step(signal)?;
        let steps = left.checked_div(step.fell.max(0));
        // Nothing left is exhausted now; a step of nothing or too small a step gives no time.
        if left == 0 || steps.is_none_or(|steps| steps > MOST_STEPS) {
            return (left == 0).then_some(step.at);
        }
        let nanos = left.saturating_mul(step.within) / step.fell;
        let nanos = SignedDuration::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX));
        step.at.saturating_add(nanos).ok()
    }

    /// Applies the answer to the last step. Returns the next step, and the decisions that are to be carried out.
    /// [`Step::Rest`] ends the cycle.
    pub fn answer<P: Borrow<Pod>>(
        &mut self,
        now: Timestamp,
        answer: Answer<'_, P>,
    ) -> (Step, Vec<Decision>) {
        let next = match answer {
            Answer::LocalStorage(Some((pods, usage))) => {
                let decisions = self.check_local_storage(now, pods, usage);
                // A pod that is never evicted does not keep the node's own pressure from being handled.
                let evicts = decisions.iter().any(|one| one.eviction.is_some());
                let next = if evicts { Step::Rest } else { self.pressure() };
                return (self.wait(now, next), decisions);
            }
            Answer::LocalStorage(None) => self.pressure(),
            Answer::Reclaimed(fresh) => self.after_reclaim(now, fresh),
            Answer::Reclaiming(outlook) => self.beside_reclaim(now, &outlook),
            Answer::Measured(signal, pods, usage) => {
                let ranked = self.rank(now, signal, pods, usage);
                self.note_growth(now, signal, (pods, usage), &ranked);
                return (Step::Rest, Vec::new());
            }
            Answer::Watched(need, pods, usage) => {
                self.watch_terminating(now, need.signal, pods, usage);
                Step::Rest
            }
            Answer::Ranked {
                need,
                pods,
                usage,
                fresh,
            } => {
                let ranked = self.rank_for(now, (need, fresh), pods, usage);
                let decision =
                    ranked.and_then(|ranked| self.decide_among(now, need, (pods, usage), ranked));
                return (Step::Rest, decision.into_iter().collect());
            }
            Answer::InOrder {
                need,
                pods,
                usage,
                ranked,
            } => {
                let decision = self.decide_among(now, need, (pods, usage), ranked);
                return (Step::Rest, decision.into_iter().collect());
            }
            Answer::NotYet => return (Step::Rest, Vec::new()),
        };
        (self.wait(now, next), Vec::new())
    }

    /// The ranking for a [`Step::Rank`], for callers that must know the order before they can measure all that the
    /// decision needs; pass it on in [`Answer::InOrder`]. `None` if no pod has to be evicted any more: observations
    /// from before the last victim had freed its resources do not count.
    pub fn rank_for(
        &mut self,
        now: Timestamp,
        (need, fresh): (UsageNeed, Option<&Observations>),
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Option<Vec<RankedPod>> {
        if let Some(fresh) = fresh {
            self.observe(now, fresh);
            // The shortage may be over by now, or another signal may be more urgent.
            if self.need() != Some(need) {
                return None;
            }
        }
        self.rank_acting(now, pods, usage)
    }

    fn decide_among(
        &mut self,
        now: Timestamp,
        need: UsageNeed,
        (pods, usage): (&[impl Borrow<Pod>], &Usage),
        ranked: Vec<RankedPod>,
    ) -> Option<Decision> {
        let ranked = self.with_awaited(now, pods, usage, ranked)?;
        let decision = self.choose(now, pods, usage, ranked)?;
        self.note_no_victim(now, need, &decision);
        Some(decision)
    }

    /// Replaces a `Rank` step by a wait while an earlier victim is still leaving, and skips a decision that would
    /// only be repeated.
    fn wait(&mut self, now: Timestamp, step: Step) -> Step {
        if step == Step::Rest {
            return self.to_measure(now).map_or(Step::Rest, Step::Measure);
        }
        let Step::Rank(need) = step else {
            return step;
        };
        // Disruption budgets hold back soft thresholds only.
        if need.hard && self.departures.unblock() {
            self.pauses.forget_victims();
        }
        if self
            .departures
            .block(now, need, self.rules.credit_terminating_pods)
        {
            return self.beside(now, need).unwrap_or(Step::Watch(need));
        }
        if self.pauses.rest(now, need) {
            Step::Rest
        } else {
            step
        }
    }

    /// The step for another signal while an earlier victim is waited for. The kubelet does nothing then.
    fn beside(&mut self, now: Timestamp, need: UsageNeed) -> Option<Step> {
        if !self.rules.hard_thresholds_first || self.pauses.waits_for_departure(need.signal) {
            return None;
        }
        // From here on this signal ranks behind the others, so that the next choice is another one if it acts.
        self.pauses.wait_for_departure(need.signal);
        let other = self.pressure();
        let is_other = match other {
            Step::Rank(other) => other.signal != need.signal,
            Step::Reclaim(other) => other.signal != need.signal,
            _ => false,
        };
        // Where the other signal waits, too, the first one is watched: its victim is credited by its remaining usage.
        let step = is_other.then(|| self.wait(now, other));
        step.filter(|step| matches!(step, Step::Rank(_) | Step::Reclaim(_)))
    }

    /// Notes that this decision evicts no pod, so that it is not repeated too soon. The kubelet's rules repeat it
    /// in each cycle.
    fn note_no_victim(&mut self, now: Timestamp, need: UsageNeed, decision: &Decision) {
        let ours = self.rules.credit_terminating_pods;
        if !ours || (decision.eviction.is_some() && !self.terminations_off) {
            return;
        }
        let outgrown = matches!(
            decision.withheld,
            Some(Withheld::NoRelief {
                growth: Some(_),
                ..
            })
        );
        // The cost of measuring decides: memory is read from files of the kernel, disks are walked.
        let pause = match need.signal.resource() {
            _ if outgrown => REPEAT_AFTER_GROWTH,
            StarvedResource::Memory | StarvedResource::Pids | StarvedResource::Io => REPEAT_AFTER,
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => REPEAT_AFTER_DISK,
        };
        let after = |pauses: i32| now.saturating_add(pause * pauses).unwrap_or(now);
        let until = after(1);
        // Once its kubelet's time is over, a pod that is waited for may be chosen.
        let overdue = self.departures.next_overdue(now);
        let until = overdue.map_or(until, |overdue| overdue.min(until));
        self.pauses.note(need, until, after(2));
    }

    /// A reclaim is under way that may free this much yet: other signals go on, and this one too unless it waits.
    fn beside_reclaim(&mut self, now: Timestamp, outlook: &Outlook) -> Step {
        let Some((need, acting)) = self.need().zip(self.acting_threshold()) else {
            return Step::Rest;
        };
        let signal = need.signal;
        if self.rules.waits_for_enough_only
            && waits_for(
                now,
                &acting,
                outlook,
                self.forecast.exhausted_in(now, signal),
            ) == Wait::GoOn
        {
            self.reclaim.end(now, signal);
            return Step::Rank(need);
        }
        // The signal ranks behind the others from here, so the next step is about another one if it acts.
        self.reclaim.wait(signal);
        self.pressure()
    }

    /// The reclaim that was asked for is over.
    fn after_reclaim(&mut self, now: Timestamp, fresh: Option<&Observations>) -> Step {
        // Ended for the acting signal alone: others that wait have their own reclaims.
        if let Some(need) = self.need() {
            self.reclaim.end(now, need.signal);
        }
        self.reclaimed(fresh)
    }

    /// After a node-level reclaim: if no threshold is met any more, ignoring grace periods and adding the minimum
    /// reclaim, the cycle is over (S1-037). `None` says that no fresh observation was possible: then pods are
    /// ranked.
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

    /// Applies an event of a pod that must leave; returns the commands that follow.
    pub fn on_event(&mut self, now: Timestamp, event: Event) -> Vec<Command> {
        let uid = match &event {
            Event::Begin(departure) => Some(departure.uid.clone()),
            Event::Killed { uid } | Event::Ended { uid, .. } => Some(uid.clone()),
            _ => None,
        };
        match &event {
            // The kubelet has begun to end a pod: observations from before are out of date.
            Event::Begin(departure)
                if departure.purpose.is_by_kubelet()
                    && !self.departures.is_terminating(&departure.uid) =>
            {
                self.last_action = Some(now);
                self.relieved = Some(now);
            }
            Event::Ended { ending, .. } => {
                self.has_gone |= matches!(ending, Ending::Gone { .. });
                self.pauses.forget_victims();
            }
            _ => {}
        }
        // Noted before the event is applied, to see which pods have released everything by it.
        let freeing = self.freeing(&event);
        let begins = matches!(event, Event::Begin(_));
        let context = self.context();
        let mut commands = self.departures.on_event(now, event, &context);
        // A departure that begins while a hard threshold acts gets no more grace than the others.
        if let Some(cut) = self.cut_graces(now).filter(|_| begins) {
            commands.extend(self.departures.on_event(now, cut, &context));
        }
        // Everything is released, so the next observation shows the whole effect of the eviction.
        for uid in &freeing {
            if !self.departures.is_freeing(uid) {
                self.futile.set_due(uid, Timestamp::MIN);
            }
        }
        if let Some(uid) = uid {
            self.schedule_comparison(&uid);
        }
        commands
    }

    /// The observed pods without processes whose resources are not free yet.
    fn freeing(&self, event: &Event) -> Vec<String> {
        let Event::Observed(pod_states) = event else {
            return Vec::new();
        };
        let uids = pod_states.iter().map(|seen| &seen.uid);
        let freeing = uids.filter(|uid| self.departures.is_freeing(uid));
        freeing.cloned().collect()
    }

    /// The effect of an eviction is compared once the pod can free nothing more. If the pod was not terminated, there
    /// is no effect to compare.
    fn schedule_comparison(&mut self, uid: &str) {
        let departure = self.departures.get(uid);
        match departure.map(Departure::stage) {
            Some(Stage::Terminating { .. }) => {
                let until = departure.map_or(Timestamp::MIN, Departure::credited_until);
                self.futile.set_due(uid, until);
            }
            // Its files are still there: it is compared when the wait for them ends, at the latest.
            Some(Stage::Ended { at }) if departure.is_some_and(|one| one.purpose.is_for_disk()) => {
                self.futile.set_due(uid, after(at, CLEANUP_TIMEOUT));
            }
            Some(Stage::Ended { .. } | Stage::Gone { .. }) => {
                self.futile.set_due(uid, Timestamp::MIN);
            }
            Some(Stage::Failed { .. } | Stage::Blocked { .. }) | None => {
                self.futile.not_terminated(uid);
            }
        }
    }

    fn context(&self) -> Context {
        let mut keeping_away = ConditionMap::default();
        for condition in self.taints() {
            keeping_away[condition] = true;
        }
        let mut available = SignalMap::default();
        for (signal, seen) in self.last.iter() {
            available[signal] = Some(seen.available);
        }
        Context {
            available,
            pressing: *self.conditions.active(),
            keeping_away,
            transition_period: self.rules.pressure_transition_period,
            kubelet: self.rules.kubelet_is_here,
            terminations_off: self.terminations_off,
        }
    }

    /// Notes the usage of the terminating pods, while no other pod may be chosen: shrinking pods are waited for.
    pub fn watch_terminating(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) {
        let rows = self.with_ranking(now, signal, |ranking| ranking.of_terminating(pods, usage));
        self.update_terminating(now, signal, pods, &rows);
    }

    pub(super) fn update_terminating(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        rows: &[RankedPod],
    ) {
        for pod in rows {
            if let Some(holds) = pod.gain {
                let uid = &pods[pod.index].borrow().uid;
                if self.departures.update_usage(now, uid, signal, holds) {
                    self.schedule_comparison(uid);
                }
            }
        }
    }
}
