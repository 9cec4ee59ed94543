//! Node-level reclaim as the housekeeper sees it: for which signals there is one, and whether it sufficed.

use super::Housekeeper;
use crate::{
    NodeCondition, Observations, Signal, SignalMap, StarvedResource, Threshold,
    decision::ActingThreshold,
    reclaim::{Outlook, Wait, wait},
    step::{Reclaim, Step},
    watched::{Watched, is_met},
};
use jiff::Timestamp;

/// How far the reclaims are that signals wait for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReclaimState {
    stages: SignalMap<Stage>,
    /// When one ended that had to be waited for.
    pub(super) ended: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// None was waited for.
    #[default]
    None,
    /// In this cycle the signal waits for one.
    Waiting,
    /// In an earlier cycle it did.
    Waited,
}

impl ReclaimState {
    pub(super) fn waits(&self, signal: Signal) -> bool {
        self.stages[signal] == Stage::Waiting
    }

    fn wait(&mut self, signal: Signal) {
        self.stages[signal] = Stage::Waiting;
    }

    pub(super) fn next_cycle(&mut self) {
        for stage in self.stages.values_mut() {
            if *stage == Stage::Waiting {
                *stage = Stage::Waited;
            }
        }
    }

    fn end(&mut self, now: Timestamp, signal: Signal) {
        if self.stages[signal] != Stage::None {
            self.ended = Some(now);
        }
        self.stages[signal] = Stage::None;
    }
}

impl Housekeeper {
    pub(super) fn reclaim_for(&self, signal: Signal) -> Option<Reclaim> {
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
        let files = self.rules.runtime_files.as_ref();
        let dead_containers = dead_containers && files.is_none_or(|files| files.layers[signal]);
        let unused_images = unused_images && files.is_none_or(|files| files.images[signal]);
        (dead_containers || unused_images).then_some(Reclaim {
            signal,
            dead_containers,
            unused_images,
        })
    }

    /// A reclaim is under way that may free this much yet: other signals go on, and this one too unless it waits.
    pub(super) fn beside_reclaim(&mut self, now: Timestamp, outlook: &Outlook) -> Step {
        let Some((need, acting)) = self.need().zip(self.acting_threshold()) else {
            return Step::Rest;
        };
        let signal = need.signal;
        if self.rules.waits_for_enough_only && self.waits_for(now, &acting, outlook) == Wait::GoOn {
            self.reclaim.end(now, signal);
            return Step::Rank(need);
        }
        self.reclaim.wait(signal);
        self.pressure()
    }

    fn waits_for(&self, now: Timestamp, acting: &ActingThreshold, outlook: &Outlook) -> Wait {
        let signal = acting.threshold.signal;
        let seen = &acting.observed;
        let to_reach = acting.threshold.to_reach(seen.capacity).value();
        let short = to_reach.saturating_sub(seen.available);
        let gain = match signal.resource() {
            StarvedResource::Inodes => outlook.inodes,
            _ => outlook.bytes,
        };
        let exhausted_in = self.forecast().exhausted_in(now, signal);
        wait(now, short, (outlook, gain), exhausted_in)
    }

    /// The reclaim that was asked for is over.
    pub(super) fn after_reclaim(&mut self, now: Timestamp, fresh: Option<&Observations>) -> Step {
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
}
