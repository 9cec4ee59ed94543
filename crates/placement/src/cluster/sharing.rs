//! Volumes and devices that pods of one gang have chosen before the API server knows of it.

use crate::volumes::VolumeChoice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The chosen volumes of claims, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Chosen(BTreeMap<String, Choice>);

#[derive(Debug)]
struct Choice {
    /// The pods that use the claim; never empty.
    pods: BTreeSet<Arc<str>>,
    volume: ChosenVolume,
}

/// The chosen volume of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChosenVolume {
    /// An existing volume.
    Volume(String),
    /// A volume to provision on this node.
    ProvisionedOn(String),
}

impl Chosen {
    /// The choice for this claim.
    pub(crate) fn of(&self, claim: &str) -> Option<&ChosenVolume> {
        Some(&self.0.get(claim)?.volume)
    }

    /// Whether some claim has chosen this volume.
    pub(crate) fn has_volume(&self, volume: &str) -> bool {
        let mut all = self.0.values();
        all.any(|choice| matches!(&choice.volume, ChosenVolume::Volume(chosen) if chosen == volume))
    }

    /// Records the volumes that a pod needs on this node.
    pub(super) fn choose(
        &mut self,
        pod_key: &Arc<str>,
        namespace: &str,
        node: &str,
        choices: &[VolumeChoice],
    ) {
        for choice in choices {
            let (claim, volume) = match choice {
                VolumeChoice::Bind { claim, volume } => {
                    (claim, ChosenVolume::Volume(volume.clone()))
                }
                VolumeChoice::Provision { claim } => {
                    (claim, ChosenVolume::ProvisionedOn(node.to_owned()))
                }
            };
            let choice = self.0.entry(format!("{namespace}/{claim}"));
            let pods = BTreeSet::new();
            let choice = choice.or_insert(Choice { pods, volume });
            choice.pods.insert(Arc::clone(pod_key));
        }
    }

    /// Drops the choices that only this pod made.
    pub(super) fn give_back(&mut self, pod: &str) {
        self.0.retain(|_, choice| {
            choice.pods.remove(pod);
            !choice.pods.is_empty()
        });
    }
}
