//! The devices that pods give back when they are removed.

use super::{ClaimName, claim_of};
use crate::cluster::Cluster;
use crate::pod::Pod;
use evictd_devices::Without;
use evictd_pod::wire::ResourceClaim;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The allocated claims that become free when pods are removed in a trial: those that only removed pods, and pods that have
/// ended, have reserved. A claim that is reserved for a group is never one of them.
#[derive(Debug, Default)]
pub struct FreedClaims {
    /// Removed pods, by UID.
    removed: BTreeSet<Arc<str>>,
    /// The claims that are free now.
    free: BTreeSet<ClaimName>,
    /// The claims of pods that have ended.
    ended: BTreeSet<ClaimName>,
    /// The allocated claims that a pod has reserved, by its UID.
    by_pod: BTreeMap<String, Vec<ClaimName>>,
    /// Names and UIDs of the pods to place. They exist and are not removed.
    waiting: Vec<(Box<str>, Arc<str>)>,
}

impl FreedClaims {
    /// Before any pod is removed for the pods to place.
    pub fn new<'p>(cluster: &Cluster, waiting: impl IntoIterator<Item = &'p Pod>) -> Self {
        let waiting = waiting.into_iter().map(|pod| {
            let identity = &pod.identity;
            (identity.name.clone(), Arc::clone(&identity.uid))
        });
        let mut freed = Self {
            waiting: waiting.collect(),
            ..Self::default()
        };
        for claim in cluster.devices().claims() {
            if claim.status.allocation.is_none() {
                continue;
            }
            let metadata = &claim.metadata;
            let name = (
                metadata.namespace_or_default().to_owned(),
                metadata.name.clone(),
            );
            if freed.is_free(cluster, claim) {
                freed.ended.insert(name.clone());
            }
            for consumer in &claim.status.reserved_for {
                let claims = freed.by_pod.entry(consumer.uid.clone()).or_default();
                claims.push(name.clone());
            }
        }
        freed.free.clone_from(&freed.ended);
        freed
    }

    /// The namespaces and names of the claims that are free now.
    pub fn free(&self) -> impl Iterator<Item = &(String, String)> {
        self.free.iter()
    }

    /// The namespaces and names of the allocated claims that a pod, by UID, has reserved.
    pub fn of_pod(&self, uid: &str) -> &[(String, String)] {
        self.by_pod.get(uid).map_or(&[], Vec::as_slice)
    }

    /// Puts all pods back. Returns whether any was removed.
    fn reset(&mut self) -> bool {
        let has_changed = !self.removed.is_empty();
        if has_changed {
            self.removed.clear();
            self.free.clone_from(&self.ended);
        }
        has_changed
    }

    /// Removes a pod, by UID, or puts it back. Returns the claims that are free now, or are used again.
    pub fn change(
        &mut self,
        cluster: &Cluster,
        uid: &Arc<str>,
        is_removed: bool,
    ) -> Vec<((String, String), bool)> {
        let has_changed = if is_removed {
            self.removed.insert(Arc::clone(uid))
        } else {
            self.removed.remove(uid)
        };
        if !has_changed {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for name in self.by_pod.get(&**uid).into_iter().flatten() {
            let is_free = claim_of(cluster, name).is_some_and(|claim| self.is_free(cluster, claim));
            let has_changed = if is_free {
                self.free.insert(name.clone())
            } else {
                self.free.remove(name)
            };
            if has_changed {
                changes.push((name.clone(), is_free));
            }
        }
        changes
    }

    /// Whether only removed pods and pods that do not exist have reserved a claim.
    fn is_free(&self, cluster: &Cluster, claim: &ResourceClaim) -> bool {
        let mut reserved = claim.status.reserved_for.iter();
        claim.status.allocation.is_some()
            && !claim.status.reserved_for.is_empty()
            && reserved.all(|consumer| {
                let mut waiting = self.waiting.iter();
                consumer.resource == "pods"
                    && !waiting.any(|(name, uid)| consumer.is_pod(name, uid))
                    && (self.removed.contains(&*consumer.uid)
                        || !cluster.has_device_user(&consumer.uid))
            })
    }
}

/// The pools as if no existing pod used the claims that are free.
#[derive(Default)]
pub(super) struct Freed {
    claims: FreedClaims,
    without: Without,
}

impl Freed {
    /// Before any pod is removed for the pod to place.
    pub(super) fn new(cluster: &Cluster, pod: &Pod) -> Self {
        let mut freed = Self {
            claims: FreedClaims::new(cluster, [pod]),
            without: Without::default(),
        };
        freed.count_all(cluster);
        freed
    }

    /// Puts all pods back.
    pub(super) fn reset(&mut self, cluster: &Cluster) {
        if self.claims.reset() {
            self.without = Without::default();
            self.count_all(cluster);
        }
    }

    fn count_all(&mut self, cluster: &Cluster) {
        for name in self.claims.free() {
            count(&mut self.without, cluster, name, false);
        }
    }

    /// Removes a pod (`times` -1), or puts it back. The pools are kept and changed, because a trial asks for every pod.
    pub(super) fn change(&mut self, cluster: &Cluster, removed: &Pod, times: i64) {
        let uid = &removed.identity.uid;
        for (name, is_free) in self.claims.change(cluster, uid, times < 0) {
            count(&mut self.without, cluster, &name, !is_free);
        }
    }

    /// The pools without the claims of removed pods.
    pub(super) const fn without(&self) -> &Without {
        &self.without
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
