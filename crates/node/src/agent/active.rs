//! The pods that are alive as far as the agent knows: those of the pod cache except those that it has terminated, and
//! those that are no longer listed but still run.
//!
//! A manifest does not change when its pod ends. So a terminated pod stays excluded until its manifest is removed,
//! or until a process runs in its cgroup again.

use crate::pods::{LocalPod, PodSet, StillRunning};
use evictd_departures::{PodState, Question};
use evictd_kernel::kill::CgroupEvictor;
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a pod is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// In this cgroup, relative to the root of its hierarchy.
    In(PathBuf),
    /// It has no cgroup on this node.
    Nowhere,
    /// It is not known at present.
    Unsure,
}

/// Keeps the set of pods alive.
#[derive(Debug, Default)]
pub(super) struct Active {
    listed: Arc<PodSet>,
    set: Arc<PodSet>,
    /// UIDs of pods that have left.
    left: BTreeSet<String>,
    changes: u64,
}

impl Active {
    pub(super) fn set(&self) -> &Arc<PodSet> {
        &self.set
    }

    /// Whether no source lists the pod with this UID.
    pub(super) fn is_unlisted(&self, uid: &str) -> bool {
        self.listed.unknown.iter().any(|pod| pod.uid == uid)
    }

    /// Where the pod with this UID is, alive or not, listed or not.
    fn place_of(&self, uid: &str) -> Place {
        let mut pods = self.listed.pods.iter();
        if let Some(pod) = pods.find(|pod| pod.uid == uid) {
            let cgroup = pod.cgroup.as_ref().map(|cgroup| cgroup.relative.clone());
            return cgroup.map_or(Place::Nowhere, Place::In);
        }
        let unlisted = self.listed.unknown.iter().find(|pod| pod.uid == uid);
        match unlisted {
            Some(pod) => Place::In(pod.relative.clone()),
            None if self.listed.is_certain() => Place::Nowhere,
            None => Place::Unsure,
        }
    }

    /// The cgroup of a listed pod, admitted or not.
    pub(super) fn cgroup_of(&self, uid: &str) -> Option<&Path> {
        let pods = self.listed.pods.iter().map(|pod| (&pod.uid, &pod.cgroup));
        let rejected = self.listed.rejected.iter();
        let mut all = pods.chain(rejected.map(|one| (&one.uid, &one.cgroup)));
        let (_, cgroup) = all.find(|(found, _)| *found == uid)?;
        cgroup.as_ref().map(|cgroup| cgroup.relative.as_path())
    }

    /// The listed pod with this UID, alive or not.
    pub(super) fn listed(&self, uid: &str) -> Option<&LocalPod> {
        self.listed.pods.iter().find(|pod| pod.uid == uid)
    }

    /// Whether this pod is listed and admitted.
    pub(super) fn is_in(&self, uid: &str) -> bool {
        self.listed.pods.iter().any(|pod| pod.uid == uid)
    }

    /// Whether this pod is listed, admitted or not.
    pub(super) fn is_listed(&self, uid: &str) -> bool {
        let mut rejected = self.listed.rejected.iter();
        self.is_in(uid) || rejected.any(|one| one.uid == uid)
    }

    /// Whether this pod's status says that it has ended.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        let mut pods = self.listed.pods.iter();
        pods.any(|pod| pod.uid == uid && pod.terminal)
    }

    /// Whether the kubelet was seen to evict this pod.
    pub(super) fn was_evicted_by_kubelet(&self, uid: &str) -> bool {
        self.listed.evicted.iter().any(|evicted| evicted == uid)
    }

    /// Takes the pod cache's present set without those that `have_left`; true if the result differs from before.
    pub(super) fn take(&mut self, listed: Arc<PodSet>, have_left: BTreeSet<String>) -> bool {
        if Arc::ptr_eq(&listed, &self.listed) && have_left == self.left {
            return false;
        }
        self.listed = listed;
        self.left = have_left;
        self.rebuild();
        true
    }

    /// The same with an unchanged cache, if other pods may have left.
    pub(super) fn refresh(&mut self, have_left: BTreeSet<String>) -> bool {
        self.take(Arc::clone(&self.listed), have_left)
    }

    fn rebuild(&mut self) {
        let lives = |pod: &&LocalPod| !pod.terminal && !self.left.contains(&pod.uid);
        let alive: Vec<&LocalPod> = self.listed.pods.iter().filter(lives).collect();
        // The usual case shares the list: nothing is copied while no pod is leaving.
        if alive.len() == self.listed.pods.len() && self.listed.still_running.is_empty() {
            self.set = Arc::clone(&self.listed);
            return;
        }
        self.changes += 1;
        let still_runs =
            |still_running: &&StillRunning| !self.left.contains(&still_running.pod.uid);
        let still_running =
            self.listed
                .still_running
                .iter()
                .filter(still_runs)
                .map(|still_running| LocalPod {
                    pod: Arc::clone(&still_running.pod),
                    cgroup: Some(still_running.cgroup.clone()),
                    manifest: None,
                });
        self.set = Arc::new(PodSet {
            // Counts down, so that it never equals a generation of the cache, which counts up from zero.
            generation: u64::MAX - self.changes,
            pods: alive.into_iter().cloned().chain(still_running).collect(),
            rejected: self.listed.rejected.clone(),
            unknown: self.listed.unknown.clone(),
            still_running: self.listed.still_running.clone(),
            warnings: self.listed.warnings.clone(),
            evicted: self.listed.evicted.clone(),
            as_of: self.listed.as_of,
        });
    }

    /// UIDs of live pods that cannot be terminated because no cgroup of theirs is known.
    pub(super) fn without_cgroup(&self) -> BTreeSet<String> {
        let without = self.set.pods.iter().filter(|pod| pod.cgroup.is_none());
        without.map(|pod| pod.uid.clone()).collect()
    }

    /// The observed state of a pod that must leave.
    pub(super) fn pod_state(&self, question: &Question, evictor: &CgroupEvictor) -> PodState {
        let uid = &question.uid;
        let place = self.place_of(uid);
        let unsure = place == Place::Unsure;
        let rejected = || self.cgroup_of(uid).map(Path::to_owned);
        let cgroup = match place {
            Place::In(cgroup) => Some(cgroup),
            // A pod that was not admitted, or has left the list, is looked for where it was last.
            Place::Nowhere | Place::Unsure => rejected().or_else(|| question.cgroup.clone()),
        };
        let runs = cgroup.as_ref().map(|cgroup| evictor.runs(cgroup));
        let older = || {
            let (time, cgroup) = question.older_than.zip(cgroup.as_ref())?;
            let oldest = evictor.oldest_process(cgroup)?;
            Some(oldest <= time)
        };
        PodState {
            uid: uid.clone(),
            // Without a cgroup there is nothing that could run.
            runs: runs.unwrap_or(Some(false)),
            listed: self.is_listed(uid),
            is_admitted: self.is_in(uid),
            terminal: self.has_ended(uid),
            unsure,
            older: older().unwrap_or(false),
            remaining: None,
            cgroup,
        }
    }
}
