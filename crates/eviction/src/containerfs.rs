//! Thresholds of containerfs follow those of nodefs or imagefs (S1-013).

use crate::rules::FilesystemLayout;
use evictd_signals::{Signal, Threshold};

/// One threshold the housekeeper works with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EffectiveThreshold {
    pub(crate) threshold: Threshold,
    /// Derived from another threshold, not configured; the kubelet leaves it out of its first cycle (S1-014).
    pub(crate) generated: bool,
}

/// The configured thresholds, in which those of containerfs are replaced by copies of their source thresholds.
/// Without a source threshold there is no containerfs threshold either: the kubelet's would be empty and never met.
pub(crate) fn effective(
    configured: &[Threshold],
    layout: FilesystemLayout,
) -> Vec<EffectiveThreshold> {
    let follows_imagefs = layout.dedicated_image_fs && !layout.split_container_fs;
    let sources = if follows_imagefs {
        [Signal::ImagefsAvailable, Signal::ImagefsInodesFree]
    } else {
        [Signal::NodefsAvailable, Signal::NodefsInodesFree]
    };
    let copies = [Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree];
    let originals = configured
        .iter()
        .filter(|threshold| !copies.contains(&threshold.signal));
    let mut all: Vec<EffectiveThreshold> = originals
        .map(|threshold| EffectiveThreshold {
            threshold: threshold.clone(),
            generated: false,
        })
        .collect();
    for (source, copy) in sources.into_iter().zip(copies) {
        for hard in [true, false] {
            let of = |signal| {
                move |threshold: &&Threshold| {
                    threshold.signal == signal && threshold.is_hard() == hard
                }
            };
            // Of several thresholds of one signal the last counts.
            if let Some(source) = configured.iter().rfind(of(source)) {
                all.push(EffectiveThreshold {
                    threshold: Threshold {
                        signal: copy,
                        ..source.clone()
                    },
                    generated: !configured.iter().any(|threshold| of(copy)(&threshold)),
                });
            }
        }
    }
    all
}
