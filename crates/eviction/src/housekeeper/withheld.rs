//! Why no pod is evicted although a threshold is met.

use super::Housekeeper;
use crate::{
    Observation, Signal, StarvedResource,
    decision::{ActingThreshold, RankedPod, Shares, Withheld},
    relief,
    watched::is_met,
};
use evictd_pod::{Pod, Quantity};
use jiff::Timestamp;
use std::borrow::Borrow;

impl Housekeeper {
    pub(super) fn withheld(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
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
            (rule && !shares.suffice()).then_some(Withheld::NoRelief { shares: *shares })
        };
        self.switched_off(signal)
            .or_else(|| self.release(now, acting, pods, ranked))
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
        let seen = (&acting.observed, acting.quantity);
        Shares::of(signal, seen, ranked, on_the_way)
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
        let evictions = self.futile.stopped(signal)?;
        self.futility_stops(signal)
            .then_some(Withheld::Futile { evictions })
    }

    /// Whether futile evictions stop this signal. Where the rules demand that a victim can help, they do not: the
    /// pods are then known to use what is short.
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
        for (pod, frees) in relief::on_the_way(signal, ranked, credited) {
            release += frees;
            names.push(pod.pod.to_string());
        }
        (names, release)
    }

    /// Whether what terminating pods still use will bring the signal back to its threshold, minimum reclaim
    /// included.
    fn release(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[impl Borrow<Pod>],
        ranked: &[RankedPod],
    ) -> Option<Withheld> {
        let signal = acting.threshold.signal;
        let (names, release) = self.on_the_way(now, signal, pods, ranked);
        let soon = Observation {
            available: acting.observed.available.saturating_add(release.value()),
            ..acting.observed
        };
        // For a pressure signal the effect of a pod's end is visible only after it.
        let enough = signal.is_pressure() || !is_met(&acting.threshold, Some(&soon), true);
        (enough && !names.is_empty()).then_some(Withheld::DyingPodsRelease {
            pods: names,
            release,
        })
    }
}
