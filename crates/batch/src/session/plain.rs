//! Bare pods: a pod without a group is a job of its own, without an object (volcano#4348). Pods of one owner may ask to start
//! together.

use super::objects::key;
use evictd_batch_objects::PodGroup;
use evictd_pod::wire::{Metadata, OwnerReference};
use std::sync::Arc;

/// The job that a pod of no group is, as the outcome of a session names it: `namespace/name@pod`, or `namespace/owner@kind` for
/// the pods of an owner that start together.
pub fn plain_job(pod: &Metadata) -> Arc<str> {
    match gang_of_owner(pod) {
        None => format!("{}@pod", key(pod)).into(),
        Some((owner, _)) => {
            let kind = owner.kind.to_lowercase();
            format!("{}/{}@{kind}", pod.namespace_or_default(), owner.name).into()
        }
    }
}

/// The owner of a pod that starts together with others of the owner, and how many of them.
pub(crate) fn gang_of_owner(pod: &Metadata) -> Option<(&OwnerReference, i32)> {
    let count = pod.annotations.get(PodGroup::MIN_MEMBER)?.parse().ok();
    let count: i32 = count.filter(|count| *count > 1)?;
    let mut owners = pod.owner_references.iter();
    Some((owners.find(|owner| owner.controller)?, count))
}
