//! Node-level reclaim as the housekeeper sees it: for which signals there is one, and whether it sufficed.

use super::Housekeeper;
use crate::{
    NodeCondition, Observations, Signal, Threshold,
    step::{Reclaim, Step},
    watched::{Watched, is_met},
};
use jiff::Timestamp;

/// How far a reclaim is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ReclaimState {
    stage: Stage,
    /// When one ended that had to be waited for.
    pub(super) ended: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    /// None was waited for.
    #[default]
    None,
    /// In this cycle signals with a reclaim wait for one.
    Waiting,
    /// In an earlier cycle they did.
    Waited,
}

impl ReclaimState {
    pub(super) fn waits(self) -> bool {
        self.stage == Stage::Waiting
    }

    pub(super) const fn wait(&mut self) {
        self.stage = Stage::Waiting;
    }

    pub(super) fn next_cycle(&mut self) {
        if self.stage == Stage::Waiting {
            self.stage = Stage::Waited;
        }
    }

    pub(super) fn end(&mut self, now: Timestamp) {
        if self.stage != Stage::None {
            self.ended = Some(now);
        }
        self.stage = Stage::None;
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
        (dead_containers || unused_images).then_some(Reclaim {
            signal,
            dead_containers,
            unused_images,
        })
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

    /// Whether a reclaim may end: no threshold is met that one can lift, ignoring grace periods and adding the minimum
    /// reclaim.
    pub fn disks_relieved(&self, seen: &Observations) -> bool {
        let still_met = |watched: &Watched| {
            let Threshold { signal, value, .. } = watched.threshold;
            let observed = seen.of(signal, value);
            self.reclaim_for(signal).is_some()
                && is_met(&watched.threshold, observed.as_ref(), true)
        };
        !self.watched.iter().any(still_met)
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
