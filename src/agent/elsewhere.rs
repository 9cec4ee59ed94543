//! Pods that the kubelet ends: each counts as our own last action, so that no second pod dies for the same bytes.

use super::Agent;
use crate::{clock, pods::PodSet};
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeSet, path::PathBuf};

/// The kubelet kills two seconds after it has asked (S1-049), and the kernel takes up to two to free what the pod held.
const LONGEST: SignedDuration = SignedDuration::from_secs(4);

/// What the kubelet has been seen to end.
#[derive(Debug, Default)]
pub(super) struct Evictions {
    /// By UID, as long as they are listed.
    known: BTreeSet<String>,
    /// The cgroups of those that may still hold something, and how long that is waited for.
    going: Vec<(PathBuf, Timestamp)>,
}

impl Agent {
    /// Looks whether the kubelet has begun to end a pod that was alive in the set before this one.
    pub(super) fn note_evictions_elsewhere(&mut self, now: Timestamp, next: &PodSet) {
        let known = &mut self.elsewhere.known;
        known.retain(|uid| next.evicted.contains(uid));
        for uid in &next.evicted {
            let is_ours = self.flights.contains(uid);
            if !known.insert(uid.clone()) || is_ours {
                continue;
            }
            let before = self.active.set();
            let Some(index) = before.pods.iter().position(|pod| pod.uid == *uid) else {
                continue;
            };
            let pod = &before.pods[index];
            tracing::info!(
                EVICTD_POD = pod.full_name(),
                EVICTD_POD_UID = uid,
                "the kubelet evicts {pod}; nobody else goes until what it held is free"
            );
            if let Some(cgroup) = &before.cgroups[index] {
                let until = clock::after(now, LONGEST);
                self.elsewhere.going.push((cgroup.relative.clone(), until));
            }
            self.housekeeper.acted_elsewhere(now);
        }
    }

    /// Whether a pod that the kubelet ends may still hold what is short.
    pub(super) fn somebody_goes_elsewhere(&mut self, now: Timestamp) -> bool {
        let hierarchies = &self.ports.evictor.hierarchies;
        let going = &mut self.elsewhere.going;
        going.retain(|(cgroup, until)| now < *until && hierarchies.runs(cgroup));
        !going.is_empty()
    }
}
