//! Volumes and devices that pods of one gang have chosen before the API server knows of it.

use super::Cluster;
use crate::id::NodeId;
use crate::pod::Pod;
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

    fn give_back(&mut self, pod: &str) {
        self.0.retain(|_, choice| {
            choice.pods.remove(pod);
            !choice.pods.is_empty()
        });
    }
}

impl Cluster {
    /// From now on pods see the choices of earlier pods of their gang.
    pub fn begin_sharing(&mut self) {
        self.devices.begin_sharing();
        self.chosen = Some(Chosen::default());
    }

    /// Drops the choices. Pods again see only the API's state and assumed devices.
    pub fn end_sharing(&mut self) {
        self.devices.end_sharing();
        self.chosen = None;
    }

    /// The choices of the current gang, if one is being placed.
    pub(crate) const fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// Records the volumes that a pod needs on this node.
    pub fn choose_volumes(&mut self, pod: &Pod, node: NodeId, choices: &[VolumeChoice]) {
        if self.chosen.is_none() || choices.is_empty() {
            return;
        }
        let pod_key = self.pod_key(pod);
        let namespace = self.symbols.text(self.template(pod).namespace).to_owned();
        let node = self.node_name(node).to_owned();
        let Some(Chosen(chosen)) = &mut self.chosen else {
            return;
        };
        for choice in choices {
            let (claim, volume) = match choice {
                VolumeChoice::Bind { claim, volume } => {
                    (claim, ChosenVolume::Volume(volume.clone()))
                }
                VolumeChoice::Provision { claim } => {
                    (claim, ChosenVolume::ProvisionedOn(node.clone()))
                }
            };
            let choice = chosen.entry(format!("{namespace}/{claim}"));
            let pods = BTreeSet::new();
            let choice = choice.or_insert(Choice { pods, volume });
            choice.pods.insert(Arc::clone(&pod_key));
        }
    }

    /// Drops the choices that only this pod made.
    pub(super) fn leave_chosen(&mut self, pod_key: &str) {
        self.devices.withdraw_pod(pod_key);
        if let Some(chosen) = &mut self.chosen {
            chosen.give_back(pod_key);
        }
    }
}
