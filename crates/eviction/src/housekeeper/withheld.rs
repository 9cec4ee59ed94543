//! Why nobody goes although a threshold acts.

use super::Housekeeper;
use crate::{
    Observation, Signal, StarvedResource,
    decision::{ActingThreshold, RankedPod, Spared, Withheld},
    watched::is_met,
};
use evictd_pod::{Pod, Quantity};
use jiff::Timestamp;

impl Housekeeper {
    pub(super) fn withheld(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[Pod],
        ranked: &[RankedPod],
    ) -> Option<Withheld> {
        if pods.is_empty() {
            return Some(Withheld::NoPods);
        }
        let all_spared = || {
            let all = ranked.iter().all(|pod| pod.spared.is_some());
            all.then_some(Withheld::AllSpared)
        };
        let no_io = || {
            let busy = |pod: &RankedPod| pod.usage.is_some_and(|usage| usage.is_positive());
            let io = acting.threshold.signal.resource() == StarvedResource::Io;
            let first = ranked.iter().find(|pod| pod.spared.is_none());
            (io && !first.is_some_and(busy)).then_some(Withheld::NoIo)
        };
        self.switched_off(acting.threshold.signal)
            .or_else(|| self.release(now, acting, pods, ranked))
            .or_else(all_spared)
            .or_else(no_io)
    }

    /// Why nobody may go for this signal now, whoever is there.
    pub(super) fn switched_off(&self, signal: Signal) -> Option<Withheld> {
        if let Some(reason) = self.rules.withhold_disk_evictions
            && self.reclaim_for(signal).is_some()
        {
            return Some(Withheld::DiskEvictionsOff {
                reason: reason.into(),
            });
        }
        let evictions = self.futile.stopped(signal)?;
        Some(Withheld::Futile { evictions })
    }

    /// Whether what dying pods still hold will lift the signal to where the threshold lets go.
    fn release(
        &self,
        now: Timestamp,
        acting: &ActingThreshold,
        pods: &[Pod],
        ranked: &[RankedPod],
    ) -> Option<Withheld> {
        if !self.rules.credit_dying_pods {
            return None;
        }
        let credited = |pod: &&RankedPod| {
            pod.spared == Some(Spared::Dying) && self.dying.is_credited(&pods[pod.index].uid, now)
        };
        let signal = acting.threshold.signal;
        let mut release = Quantity::ZERO;
        let mut names = Vec::new();
        for pod in ranked.iter().filter(credited) {
            release += pod.gives_back(signal).unwrap_or_default();
            names.push(pod.pod.to_string());
        }
        let soon = Observation {
            available: acting.observed.available.saturating_add(release.value()),
            ..acting.observed
        };
        // What a pod's end does to a pressure shows when it is gone.
        let enough = signal.is_pressure() || !is_met(&acting.threshold, Some(&soon), true);
        (enough && !names.is_empty()).then_some(Withheld::DyingPodsRelease {
            pods: names,
            release,
        })
    }
}
