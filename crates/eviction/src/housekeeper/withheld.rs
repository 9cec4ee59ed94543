//! Why no pod is evicted although a threshold is met.

use super::{Housekeeper, cause::Candidates};
use crate::{
    Signal, StarvedResource, Threshold, Usage,
    decision::{ActingThreshold, RankedPod, Shares, UnevictableGrowth, Withheld},
    relief,
    unevictable::{HORIZON, Unevictable},
};
use evictd_pod::{Pod, Quantity};
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;

/// The pods' usage is read when a threshold will be crossed within this time.
const APPROACH: SignedDuration = SignedDuration::from_millis(500);
/// Not more often than this: each reading takes processor time, and a rate needs some distance.
const MEASURE_AFTER: SignedDuration = SignedDuration::from_millis(30);

impl Housekeeper {
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
}
