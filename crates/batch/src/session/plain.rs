//! Bare pods: a pod without a group is a job of its own, without an object (volcano#4348). Pods of one owner may ask to start
//! together.

use super::objects::key;
use evictd_batch_objects::PodGroup;
use evictd_pod::wire::{Metadata, OwnerReference};
use hashbrown::HashMap;
use std::sync::Arc;

/// How many pods of each owner start together, by the UID of the owner, if its annotation says so (S6-061).
#[derive(Debug, Default)]
pub(crate) struct Owners(HashMap<Box<str>, i32>);

impl Owners {
    /// An owner came or changed. Returns whether it says another number than before.
    pub(crate) fn put(&mut self, owner: &Metadata) -> bool {
        if owner.uid.is_empty() {
            return false;
        }
        let text = owner.annotations.get(PodGroup::MIN_MEMBER);
        let count = text.and_then(gang_size);
        let before = match count {
            Some(count) => self.0.insert(Box::from(&*owner.uid), count),
            None => self.0.remove(&*owner.uid),
        };
        before != count
    }

    /// An owner is deleted. Returns whether it said a number.
    pub(crate) fn remove(&mut self, owner: &Metadata) -> bool {
        self.0.remove(&*owner.uid).is_some()
    }

    /// The owner of a pod that starts together with others of the owner, and how many of them. The annotation of the pod
    /// counts before that of its owner.
    pub(crate) fn gang_of<'p>(&self, pod: &'p Metadata) -> Option<(&'p OwnerReference, i32)> {
        let mut owners = pod.owner_references.iter();
        let owner = owners.find(|owner| owner.controller)?;
        let count = match pod.annotations.get(PodGroup::MIN_MEMBER) {
            Some(text) => gang_size(text),
            None => self.0.get(&*owner.uid).copied(),
        };
        Some((owner, count?))
    }

    /// The job that a pod of no group is, as the outcome of a session names it: `namespace/name@pod`, or
    /// `namespace/owner@kind` for the pods of an owner that start together.
    pub(crate) fn job_of(&self, pod: &Metadata) -> Arc<str> {
        match self.gang_of(pod) {
            None => format!("{}@pod", key(pod)).into(),
            Some((owner, _)) => {
                let kind = owner.kind.to_lowercase();
                format!("{}/{}@{kind}", pod.namespace_or_default(), owner.name).into()
            }
        }
    }
}

/// So many pods start together; `None` for anything but a number above one.
fn gang_size(text: &str) -> Option<i32> {
    let count = text.parse().ok();
    count.filter(|count| *count > 1)
}
