//! The devices that removed pods give back to a gang, in a trial.

use super::Member;
use evictd_placement::{Cluster, FreedClaims};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The driver and the name of a pool.
type PoolName = (String, String);

/// Counts the devices of removed pods as free, if a gang may preempt for devices. Otherwise nothing is counted.
#[derive(Default)]
pub(super) struct FreedDevices(Option<FreedClaims>);

impl FreedDevices {
    /// For these members, before any pod is removed. The devices of pods that have ended are free at once.
    pub(super) fn new(cluster: &mut Cluster, members: &[Member]) -> Self {
        let pods = members.iter().filter_map(|member| member.pod.as_ref());
        let claims = FreedClaims::new(cluster, pods);
        for (namespace, name) in claims.free() {
            cluster.devices_mut().count_claim(namespace, name, false);
        }
        Self(Some(claims))
    }

    /// Removes a pod, or puts it back.
    pub(super) fn change(&mut self, cluster: &mut Cluster, uid: &Arc<str>, is_removed: bool) {
        let Some(claims) = &mut self.0 else {
            return;
        };
        for ((namespace, name), is_free) in claims.change(cluster, uid, is_removed) {
            cluster
                .devices_mut()
                .count_claim(&namespace, &name, !is_free);
        }
    }

    /// The pools in which these pods, by UID, have devices.
    pub(super) fn pools(&self, cluster: &Cluster, pods: &[Arc<str>]) -> BTreeSet<PoolName> {
        let Some(claims) = &self.0 else {
            return BTreeSet::new();
        };
        let names = pods.iter().flat_map(|uid| claims.of_pod(uid));
        let claims = names.filter_map(|(namespace, name)| cluster.devices().claim(namespace, name));
        let results = claims
            .filter_map(|claim| claim.status.allocation.as_ref())
            .flat_map(|allocation| &allocation.devices.results);
        results
            .map(|result| (result.driver.clone(), result.pool.clone()))
            .collect()
    }

    /// Ends the trial: all devices are used again.
    pub(super) fn restore(self, cluster: &mut Cluster) {
        let claims = self.0.unwrap_or_default();
        for (namespace, name) in claims.free() {
            cluster.devices_mut().count_claim(namespace, name, true);
        }
    }
}

impl Member {
    /// Whether it has devices in one of these pools, in the current trial.
    pub(super) fn uses_pool(&self, pools: &BTreeSet<PoolName>) -> bool {
        if pools.is_empty() || self.node().is_none() {
            return false;
        }
        let choices = self.pre_bind.devices.iter();
        let mut results = choices
            .filter_map(|choice| choice.allocation.as_ref())
            .flat_map(|allocation| &allocation.devices.results);
        results.any(|result| pools.contains(&(result.driver.clone(), result.pool.clone())))
    }
}
