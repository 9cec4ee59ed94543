//! What pods that are decided about together have chosen for their claims: the API does not know of it yet.

use super::Cluster;
use crate::id::NodeId;
use crate::pod::Pod;
use crate::volumes::VolumeChoice;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What claims on volumes have been chosen, by `namespace/name`.
#[derive(Debug, Default)]
pub(crate) struct Chosen(BTreeMap<String, Choice>);

#[derive(Debug)]
struct Choice {
    /// Those that use the claim; never empty.
    pods: BTreeSet<Arc<str>>,
    what: ChosenVolume,
}

/// What a claim gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ChosenVolume {
    /// A volume that is there.
    Volume(String),
    /// One that is made for this node.
    MadeFor(String),
}

impl Chosen {
    /// What this claim gets.
    pub(crate) fn of(&self, claim: &str) -> Option<&ChosenVolume> {
        Some(&self.0.get(claim)?.what)
    }

    /// Whether a claim gets this volume.
    pub(crate) fn has_volume(&self, volume: &str) -> bool {
        let mut all = self.0.values();
        all.any(|own| matches!(&own.what, ChosenVolume::Volume(chosen) if chosen == volume))
    }

    fn give_back(&mut self, pod: &str) {
        self.0.retain(|_, choice| {
            choice.pods.remove(pod);
            !choice.pods.is_empty()
        });
    }
}

impl Cluster {
    /// Pods are decided about together from now on: what claims get for one of them the others share, or leave to it.
    pub fn begin_sharing(&mut self) {
        self.devices.begin_sharing();
        self.chosen = Some(Chosen::default());
    }

    /// From now on pods go by what the API knows, and by devices that were promised.
    pub fn end_sharing(&mut self) {
        self.devices.end_sharing();
        self.chosen = None;
    }

    /// What claims on volumes have been chosen for pods that are decided about together.
    pub(crate) const fn chosen(&self) -> Option<&Chosen> {
        self.chosen.as_ref()
    }

    /// A pod goes to this node with these volumes, for the time being.
    pub fn choose_volumes(&mut self, pod: &Pod, node: NodeId, choices: &[VolumeChoice]) {
        if self.chosen.is_none() || choices.is_empty() {
            return;
        }
        let known_as = self.known_as(pod);
        let namespace = self.symbols.text(self.template(pod).namespace).to_owned();
        let node = self.node_name(node).to_owned();
        let Some(Chosen(chosen)) = &mut self.chosen else {
            return;
        };
        for choice in choices {
            let (claim, what) = match choice {
                VolumeChoice::Bind { claim, volume } => {
                    (claim, ChosenVolume::Volume(volume.clone()))
                }
                VolumeChoice::Provision { claim } => (claim, ChosenVolume::MadeFor(node.clone())),
            };
            let own = chosen.entry(format!("{namespace}/{claim}"));
            let pods = BTreeSet::new();
            let own = own.or_insert(Choice { pods, what });
            own.pods.insert(Arc::clone(&known_as));
        }
    }

    /// A pod that had chosen something goes elsewhere.
    pub(super) fn leave_chosen(&mut self, known_as: &str) {
        self.devices.give_back(known_as);
        if let Some(chosen) = &mut self.chosen {
            chosen.give_back(known_as);
        }
    }
}
