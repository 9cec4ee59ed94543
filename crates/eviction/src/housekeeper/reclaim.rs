//! Node-level reclaim as the housekeeper sees it: for which signals there is one, and whether it sufficed.

use crate::{rules::Rules, step::Reclaim};
use evictd_decision::ActingThreshold;
use evictd_reclaim::{Outlook, Wait, wait};
use evictd_signals::{NodeCondition, Signal, SignalMap, StarvedResource};
use jiff::{SignedDuration, Timestamp};

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

    pub(super) fn wait(&mut self, signal: Signal) {
        self.stages[signal] = Stage::Waiting;
    }

    pub(super) fn next_cycle(&mut self) {
        for stage in self.stages.values_mut() {
            if *stage == Stage::Waiting {
                *stage = Stage::Waited;
            }
        }
    }

    pub(super) fn end(&mut self, now: Timestamp, signal: Signal) {
        // One that no signal waited for delays no hard threshold.
        if self.stages[signal] != Stage::None {
            self.ended = Some(now);
        }
        self.stages[signal] = Stage::None;
    }
}

/// The reclaim that may lift this signal, if any can.
pub(super) fn reclaim_for(rules: &Rules, signal: Signal) -> Option<Reclaim> {
    use Signal::{ImagefsAvailable, ImagefsInodesFree, NodefsAvailable, NodefsInodesFree};
    let image = matches!(signal, ImagefsAvailable | ImagefsInodesFree);
    let node = matches!(signal, NodefsAvailable | NodefsInodesFree);
    let disk = signal.condition() == Some(NodeCondition::DiskPressure);
    let layout = rules.layout;
    let (dead_containers, unused_images) =
        match (layout.dedicated_image_fs, layout.split_container_fs) {
            _ if !disk => (false, false),
            // Images are on the image filesystem, and writable layers are not.
            (true, true) => (!image, image),
            (true, false) => (!node, !node),
            (false, _) => (true, true),
        };
    let files = rules.runtime_files.as_ref();
    let dead_containers = dead_containers && files.is_none_or(|files| files.layers[signal]);
    let unused_images = unused_images && files.is_none_or(|files| files.images[signal]);
    (dead_containers || unused_images).then_some(Reclaim {
        signal,
        dead_containers,
        unused_images,
    })
}

/// Whether the signal waits for a reclaim under way.
pub(super) fn waits_for(
    now: Timestamp,
    acting: &ActingThreshold,
    outlook: &Outlook,
    exhausted_in: Option<SignedDuration>,
) -> Wait {
    let signal = acting.threshold.signal;
    let seen = &acting.observed;
    let to_reach = acting.threshold.to_reach(seen.capacity).value();
    let short = to_reach.saturating_sub(seen.available);
    let gain = match signal.resource() {
        StarvedResource::Inodes => outlook.inodes,
        _ => outlook.bytes,
    };
    wait(now, short, (outlook, gain), exhausted_in)
}
