//! The devices that pods give back when they are removed.

use super::{ClaimName, claim_of};
use crate::cluster::Cluster;
use crate::pod::Pod;
use evictd_devices::Without;
use evictd_pod::wire::ResourceClaim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pods that are removed in a trial, and the pools as if no existing pod used their claims.
#[derive(Default)]
pub(super) struct Freed {
    /// Removed pods, by UID.
    removed: BTreeSet<Arc<str>>,
    /// The claims that only removed pods use, and those of pods that have ended.
    claims: BTreeSet<ClaimName>,
    /// The claims of pods that have ended.
    ended: BTreeSet<ClaimName>,
    /// The allocated claims that a pod has reserved, by its UID.
    by_pod: BTreeMap<String, Vec<ClaimName>>,
    without: Without,
}

impl Freed {
    /// Before any pod is removed for the pod to place.
    pub(super) fn new(cluster: &Cluster, pod: &Pod) -> Self {
        let mut freed = Self::default();
        for claim in cluster.devices().claims() {
            if claim.status.allocation.is_none() {
                continue;
            }
            let metadata = &claim.metadata;
            let name = (
                metadata.namespace_or_default().to_owned(),
                metadata.name.clone(),
            );
            if freed.is_free(cluster, pod, claim) {
                freed.ended.insert(name.clone());
            }
            for consumer in &claim.status.reserved_for {
                let claims = freed.by_pod.entry(consumer.uid.clone()).or_default();
                claims.push(name.clone());
            }
        }
        freed.start_over(cluster);
        freed
    }

    /// Puts all pods back.
    pub(super) fn reset(&mut self, cluster: &Cluster) {
        if !self.removed.is_empty() {
            self.removed.clear();
            self.start_over(cluster);
        }
    }

    fn start_over(&mut self, cluster: &Cluster) {
        self.claims.clone_from(&self.ended);
        self.without = Without::default();
        for name in &self.ended {
            count(&mut self.without, cluster, name, false);
        }
    }

    /// Removes a pod (`times` -1), or puts it back. The pools are kept and changed, because a trial asks for every pod.
    pub(super) fn change(&mut self, cluster: &Cluster, pod: &Pod, removed: &Pod, times: i64) {
        let uid = &removed.identity.uid;
        let has_changed = if times < 0 {
            self.removed.insert(Arc::clone(uid))
        } else {
            self.removed.remove(uid)
        };
        if !has_changed {
            return;
        }
        for name in self.by_pod.get(&**uid).into_iter().flatten() {
            let is_free =
                claim_of(cluster, name).is_some_and(|claim| self.is_free(cluster, pod, claim));
            if is_free && self.claims.insert(name.clone()) {
                count(&mut self.without, cluster, name, false);
            } else if !is_free && self.claims.remove(name) {
                count(&mut self.without, cluster, name, true);
            }
        }
    }

    /// The pools without the claims of removed pods.
    pub(super) const fn without(&self) -> &Without {
        &self.without
    }

    /// Whether only removed pods and pods that do not exist have reserved a claim. The pod to place exists and is not removed.
    fn is_free(&self, cluster: &Cluster, pod: &Pod, claim: &ResourceClaim) -> bool {
        let mut reserved = claim.status.reserved_for.iter();
        claim.status.allocation.is_some()
            && !claim.status.reserved_for.is_empty()
            && reserved.all(|consumer| {
                consumer.resource == "pods"
                    && !consumer.is_pod(pod.name(), pod.uid())
                    && (self.removed.contains(&*consumer.uid)
                        || !cluster.has_device_user(&consumer.uid))
            })
    }
}

/// Counts the devices of a claim as used or as free.
fn count(without: &mut Without, cluster: &Cluster, name: &ClaimName, more: bool) {
    let allocation = claim_of(cluster, name).and_then(|claim| claim.status.allocation.as_ref());
    if let Some(allocation) = allocation {
        if more {
            without.take(cluster.devices(), allocation);
        } else {
            without.free(cluster.devices(), allocation);
        }
    }
}
