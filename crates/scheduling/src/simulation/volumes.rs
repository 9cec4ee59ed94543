//! The volumes of a simulation, and the writes of a binding to them.

use crate::change::{Change, Delta};
use crate::scheduler::Event;
use evictd_placement::VolumeChoice;
use evictd_pod::wire::{self, ObjectReference, PersistentVolume, PersistentVolumeClaim};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The annotation with the node on which the volume of a claim is provisioned.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The existing claims by `namespace/name`, and the volumes by name.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    claims: BTreeMap<String, Arc<PersistentVolumeClaim>>,
    volumes: BTreeMap<String, Arc<PersistentVolume>>,
}

impl Volumes {
    /// Keeps the claim or volume of an event, or drops a deleted one.
    pub(super) fn observe(&mut self, event: &Event) {
        let Event::Change(change) = event else {
            return;
        };
        match change {
            Change::PersistentVolumeClaim(Delta { new: Some(new), .. }) => {
                self.claims
                    .insert(new.metadata.full_name(), Arc::clone(new));
            }
            Change::PersistentVolumeClaim(Delta { old: Some(old), .. }) => {
                self.claims.remove(&old.metadata.full_name());
            }
            Change::PersistentVolume(Delta { new: Some(new), .. }) => {
                self.volumes
                    .insert(new.metadata.name.clone(), Arc::clone(new));
            }
            Change::PersistentVolume(Delta { old: Some(old), .. }) => {
                self.volumes.remove(&old.metadata.name);
            }
            _ => {}
        }
    }

    /// The changes that `PreBind` waits for: claims are bound to their volumes, or have the node that gets a new volume.
    pub(super) fn bind(&self, pod: &wire::Pod, node: &str, choices: &[VolumeChoice]) -> Vec<Event> {
        let namespace = pod.metadata.namespace_or_default();
        let mut events = Vec::new();
        for choice in choices {
            let (VolumeChoice::Bind { claim, .. } | VolumeChoice::Provision { claim }) = choice;
            let Some(old) = self.claims.get(&format!("{namespace}/{claim}")) else {
                continue;
            };
            let mut new = PersistentVolumeClaim::clone(old);
            match choice {
                VolumeChoice::Bind { volume, .. } => {
                    events.extend(self.reserve(volume, old));
                    new.spec.volume_name.clone_from(volume);
                    "Bound".clone_into(&mut new.status.phase);
                }
                VolumeChoice::Provision { .. } => {
                    new.metadata.annotations.insert(SELECTED_NODE, node);
                }
            }
            events.push(Event::Change(Change::PersistentVolumeClaim(Delta {
                old: Some(Arc::clone(old)),
                new: Some(Arc::new(new)),
            })));
        }
        events
    }

    /// The volume becomes that of the claim.
    fn reserve(&self, volume: &str, claim: &PersistentVolumeClaim) -> Option<Event> {
        let old = self.volumes.get(volume)?;
        let mut new = PersistentVolume::clone(old);
        new.spec.claim_ref = Some(ObjectReference {
            namespace: claim.metadata.namespace_or_default().to_owned(),
            name: claim.metadata.name.clone(),
        });
        "Bound".clone_into(&mut new.status.phase);
        Some(Event::Change(Change::PersistentVolume(Delta {
            old: Some(Arc::clone(old)),
            new: Some(Arc::new(new)),
        })))
    }
}
