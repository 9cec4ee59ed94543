//! Which pod is evicted for the acting threshold, and why none is.

use super::{Housekeeper, cause::Candidates};
use crate::{
    message::{eviction_message, parts_of_signal, weighed_message},
    relief::{self, Eligible},
    rules::Figures,
    unevictable::{HORIZON, Unevictable},
};
use evictd_decision::{
    ActingThreshold, Cause, Decision, Eviction, PassedOver, RankedPod, Shares, UnevictableGrowth,
    Withheld,
    why::{Choice, why},
};
use evictd_departures::Chosen;
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Signal, StarvedResource, Threshold};
use evictd_usage::Usage;
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;

/// The pods' usage is read when a threshold will be crossed within this time.
const APPROACH: SignedDuration = SignedDuration::from_millis(500);
/// Not more often than this: each reading takes processor time, and a rate needs some distance.
const MEASURE_AFTER: SignedDuration = SignedDuration::from_millis(30);

impl Housekeeper {
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
    pub(super) fn rank_acting(
        &self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Option<Vec<RankedPod>> {
        let acting = self.acting_threshold()?;
        Some(self.rank(now, acting.threshold.signal, pods, usage))
    }

    /// Chooses the victim from the ranking.
    pub(super) fn choose(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        ranked: Vec<RankedPod>,
    ) -> Option<Decision> {
        let acting = self.acting_threshold()?;
        let signal = acting.threshold.signal;
        // Before the shares: the usage of terminating pods is credited in them.
        self.update_terminating(now, signal, pods, &ranked);
        self.note_growth(now, signal, (pods, usage), &ranked);
        let shares = self.shares(now, &acting, pods, &ranked);
        let candidates = Candidates::of(&acting, usage, &ranked, (&self.last, &self.rules));
        let withheld = self.withheld(now, &acting, pods, (&ranked, &candidates), &shares);
        self.at_own_limits[signal] = matches!(withheld, Some(Withheld::OwnLimits { .. }));
        let mut eligible = Eligible::of(signal, &ranked, &shares, &self.rules);
        // The cause of a pressure may exclude pods that the ranking would allow.
        eligible.pods.retain(|pod| candidates.allow(pod));
        // Where relief is not required, it may still be that no pod gives anything back.
        let withheld = withheld.or_else(|| {
            let growth = None;
            let none = eligible.pods.is_empty();
            none.then_some(Withheld::NoRelief { shares, growth })
        });
        let in_vain = self.futile.stopped(signal);
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
            owner: victim_pod.and_then(|pod| self.conditions.owner_of(now, pod, &self.rules)),
            passed_over: PassedOver::largest(signal, &ranked, victim),
            parts: victim
                .zip(victim_pod)
                .map_or_else(Vec::new, |(victim, pod)| {
                    let used = usage.of(victim.index);
                    let parts = |used| parts_of_signal(signal, self.rules.layout, pod, used);
                    used.map(parts).unwrap_or_default()
                }),
            threshold: Some(acting),
            eviction,
            withheld,
            ranked,
            // Pressure is a share of time and no sum of the pods' usage.
            shares: Some(shares).filter(|_| !signal.is_pressure()),
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

    /// The ranking by which to decide; `None` while a figure that could change the choice may become known soon. When
    /// the wait is over, the loss of the filesystem since the crossing counts for pods with unknown parts.
    pub(super) fn with_awaited(
        &mut self,
        now: Timestamp,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
        ranked: Vec<RankedPod>,
    ) -> Option<Vec<RankedPod>> {
        let acting = self.acting_threshold()?;
        let signal = acting.threshold.signal;
        // The unknown figure cannot change the choice, so there is nothing to wait for.
        if !self.is_open(now, &acting, pods, &ranked) {
            self.awaited.end(signal);
            return Some(ranked);
        }
        let exhausted_in = self.forecast.exhausted_in(now, signal);
        let available = acting.observed.available;
        let lost = self.awaited.wait(now, signal, available, exhausted_in)?;
        Some(self.with_ranking(now, signal, |ranking| ranking.of_losing(pods, usage, lost)))
    }

    /// Whether a figure that is unknown yet could change the victim, or whether there is one.
    fn is_open(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> bool {
        let unknown = |row: &RankedPod| row.partly_unknown && row.spared.is_none();
        // For the kubelet an unknown figure is zero (S1-060), so it never waits for one.
        if self.rules.figures == Figures::Kubelet || !ranked.iter().any(unknown) {
            return false;
        }
        let suffices = || {
            self.shares(now, acting, pods, ranked)
                .suffice(Quantity::ZERO)
        };
        let signal = acting.threshold.signal;
        let open = self.with_ranking(now, signal, |ranking| ranking.is_open(ranked));
        open || (self.rules.requires_relief && !suffices())
    }

    pub(super) fn withheld(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        (ranked, candidates): (&[RankedPod], &Candidates),
        shares: &Shares,
    ) -> Option<Withheld> {
        let signal = acting.threshold.signal;
        if pods.is_empty() {
            return Some(Withheld::NoPods);
        }
        let all_spared = || {
            let all = ranked.iter().all(|pod| pod.spared.is_some());
            all.then_some(Withheld::AllSpared)
        };
        let first = ranked.iter().find(|pod| pod.spared.is_none());
        let no_io = || {
            let busy = |pod: &RankedPod| pod.usage.is_some_and(|usage| usage.is_positive());
            let io = signal.resource() == StarvedResource::Io;
            (io && !first.is_some_and(busy)).then_some(Withheld::NoIo)
        };
        let no_relief = || {
            let rule = self.rules.requires_relief && !signal.is_pressure();
            // The victim holds more than could be counted, so it may be enough.
            let rule = rule && !first.is_some_and(|pod| pod.at_least);
            let growth = self.outgrowth(signal, pods, ranked, shares);
            let none = rule && (growth.is_some() || !shares.suffice(Quantity::ZERO));
            none.then_some(Withheld::NoRelief {
                shares: *shares,
                growth,
            })
        };
        let by_cause = || match candidates {
            Candidates::None(why) => Some(Withheld::clone(why)),
            _ => None,
        };
        // In the order in which a reader asks: is it off, is help on its way, is it the cause, is any pod left.
        self.switched_off(signal)
            .or_else(|| self.release(now, acting, (pods, ranked), shares))
            .or_else(by_cause)
            .or_else(all_spared)
            .or_else(no_io)
            .or_else(no_relief)
    }

    /// Who uses the resource that is short.
    pub(super) fn shares(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> Shares {
        let signal = acting.threshold.signal;
        let (_, on_the_way) = self.on_the_way(now, signal, pods, ranked);
        let seen = (&acting.observed, &acting.threshold);
        // The kubelet never asks whether the target can be reached.
        let reachable_only = self.rules.requires_relief;
        Shares::of(signal, seen, ranked, on_the_way, reachable_only)
    }

    /// The growth of unevictable usage, if it would soon take all that evictions free.
    fn outgrowth(
        &self,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
        shares: &Shares,
    ) -> Option<UnevictableGrowth> {
        let falls_by = self.forecast.falls_by(signal);
        let growth = self.unevictable.growth(signal, falls_by, pods, ranked)?;
        let later = growth.per_second.value().saturating_mul(HORIZON.as_secs());
        let later = signal.quantity(later);
        (!shares.suffice(later)).then_some(growth)
    }

    /// Notes the usage of this signal by every pod and by the host.
    pub(super) fn note_growth(
        &mut self,
        now: Timestamp,
        signal: Signal,
        (pods, usage): (&[impl Borrow<Pod>], &Usage),
        ranked: &[RankedPod],
    ) {
        let wanted = self.rules.requires_relief && Unevictable::follows(signal);
        let Some(observed) = self.last.get(signal).copied().filter(|_| wanted) else {
            return;
        };
        // Without it the remaining usage of ended pods would look like growth of the host.
        let (_, released) = self.departures.remaining(now, signal);
        let when = (now, signal);
        self.unevictable
            .observe(when, &observed, (pods, usage), ranked, released);
    }

    /// The first signal that is about to cross a threshold and for which the pods' usage has to be read before.
    pub(super) fn to_measure(&self, now: Timestamp) -> Option<Signal> {
        if !self.rules.requires_relief {
            return None;
        }
        let near = |threshold: &&Threshold| {
            let signal = threshold.signal;
            let Some(observed) = self
                .last
                .get(signal)
                .filter(|_| Unevictable::follows(signal))
            else {
                return false;
            };
            let level = threshold.value.at(observed.capacity).value();
            let left = self.forecast.may_reach_in(now, signal, level);
            // Below the level the threshold acts, and its ranking reads every pod anyway.
            observed.available >= level
                && left.is_some_and(|left| left <= APPROACH)
                && self.unevictable.is_due(now, signal, MEASURE_AFTER)
        };
        self.thresholds()
            .find(near)
            .map(|threshold| threshold.signal)
    }

    /// Whether evictions for this signal are off or stopped, whatever the pods are.
    pub(super) fn switched_off(&self, signal: Signal) -> Option<Withheld> {
        if let Some(reason) = &self.rules.withhold_disk_evictions
            && self.reclaim_for(signal).is_some()
        {
            return Some(Withheld::DiskEvictionsOff {
                reason: reason.clone(),
            });
        }
        if self.is_read_only(signal) {
            return Some(Withheld::ReadOnlyFilesystem);
        }
        let evictions = self.futile.stopped(signal)?;
        self.futility_stops(signal)
            .then_some(Withheld::Futile { evictions })
    }

    /// Whether nothing that ends gives anything back, because the filesystem cannot be written.
    pub(super) fn is_read_only(&self, signal: Signal) -> bool {
        self.rules.spares_pods_of_read_only && self.last.is_read_only(signal)
    }

    /// Whether futile evictions stop this signal. They do not where the rules demand a victim that can help: then the
    /// pods are known to use the starved resource.
    pub(super) fn futility_stops(&self, signal: Signal) -> bool {
        signal.is_pressure() || !self.rules.requires_relief
    }

    /// Terminating pods that will still free some of this signal, and the sum.
    fn on_the_way(
        &self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> (Vec<String>, Quantity) {
        // The kubelet counts no usage of terminating pods.
        if !self.rules.credit_terminating_pods {
            return (Vec::new(), Quantity::ZERO);
        }
        let (mut names, mut release) = self.departures.remaining(now, signal);
        let credited = |pod: &RankedPod| {
            let uid = &pods[pod.index].borrow().uid;
            self.departures.is_credited(uid, now)
        };
        for (pod, frees) in relief::on_the_way(ranked, credited) {
            release += frees;
            names.push(pod.pod.to_string());
        }
        (names, release)
    }

    /// Whether the remaining usage of terminating pods will lift the signal to its target.
    fn release(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        (pods, ranked): (&[impl Borrow<Pod>], &[RankedPod]),
        shares: &Shares,
    ) -> Option<Withheld> {
        let signal = acting.threshold.signal;
        let (names, release) = self.on_the_way(now, signal, pods, ranked);
        // For a pressure signal the effect of a pod's end is visible only after it.
        let enough = signal.is_pressure() || release >= shares.short;
        (enough && !names.is_empty()).then_some(Withheld::DyingPodsRelease {
            pods: names,
            release,
            resource: signal.resource(),
        })
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
}

/// The consequence for a victim that its kubelet starts again.
fn starts_again(victim: Option<&Pod>) -> &'static str {
    if victim.is_some_and(Pod::is_from_file) {
        "; as a static pod it is started again from its file, until that is moved away"
    } else {
        ""
    }
}
