//! The pods that are alive as far as the agent knows: those of the roster except those that it has terminated, and
//! those that are no longer listed but still run.
//!
//! A manifest does not change when its pod ends. So a terminated pod stays excluded until its manifest is removed,
//! or until a process runs in its cgroup again.

use crate::pods::{LocalPod, PodSet, Vanished};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

/// Where a pod is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Place {
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
    roster: Arc<PodSet>,
    set: Arc<PodSet>,
    /// UIDs of pods that have left.
    left: BTreeSet<String>,
    changes: u64,
}

impl Active {
    /// The pods alive.
    pub(super) fn set(&self) -> &Arc<PodSet> {
        &self.set
    }

    /// Whether no source lists the pod with this UID.
    pub(super) fn is_unlisted(&self, uid: &str) -> bool {
        self.roster.unknown.iter().any(|pod| pod.uid == uid)
    }

    /// Where the pod with this UID is, alive or not, listed or not.
    pub(super) fn place_of(&self, uid: &str) -> Place {
        let mut pods = self.roster.pods.iter();
        if let Some(pod) = pods.find(|pod| pod.uid == uid) {
            let cgroup = pod.cgroup.as_ref().map(|cgroup| cgroup.relative.clone());
            return cgroup.map_or(Place::Nowhere, Place::In);
        }
        let unlisted = self.roster.unknown.iter().find(|pod| pod.uid == uid);
        match unlisted {
            Some(pod) => Place::In(pod.relative.clone()),
            None if self.roster.is_certain() => Place::Nowhere,
            None => Place::Unsure,
        }
    }

    /// The cgroup of a listed pod, admitted or not.
    pub(super) fn cgroup_of(&self, uid: &str) -> Option<&Path> {
        let pods = self.roster.pods.iter().map(|pod| (&pod.uid, &pod.cgroup));
        let rejected = self.roster.rejected.iter();
        let mut all = pods.chain(rejected.map(|one| (&one.uid, &one.cgroup)));
        let (_, cgroup) = all.find(|(found, _)| *found == uid)?;
        cgroup.as_ref().map(|cgroup| cgroup.relative.as_path())
    }

    /// Whether this pod is listed and admitted.
    pub(super) fn is_in(&self, uid: &str) -> bool {
        self.roster.pods.iter().any(|pod| pod.uid == uid)
    }

    /// Whether this pod is listed, admitted or not.
    pub(super) fn is_listed(&self, uid: &str) -> bool {
        let mut rejected = self.roster.rejected.iter();
        self.is_in(uid) || rejected.any(|one| one.uid == uid)
    }

    /// Whether this pod's status says that it has ended.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        let mut pods = self.roster.pods.iter();
        pods.any(|pod| pod.uid == uid && pod.terminal)
    }

    /// Whether the kubelet was seen to evict this pod.
    pub(super) fn was_evicted_elsewhere(&self, uid: &str) -> bool {
        self.roster.evicted.iter().any(|evicted| evicted == uid)
    }

    /// Takes the roster's present set without those that `have_left`; true if the result differs from before.
    pub(super) fn take(&mut self, roster: Arc<PodSet>, have_left: BTreeSet<String>) -> bool {
        if Arc::ptr_eq(&roster, &self.roster) && have_left == self.left {
            return false;
        }
        self.roster = roster;
        self.left = have_left;
        self.work_out();
        true
    }

    /// The same with an unchanged roster, if other pods may have left.
    pub(super) fn refresh(&mut self, have_left: BTreeSet<String>) -> bool {
        self.take(Arc::clone(&self.roster), have_left)
    }

    fn work_out(&mut self) {
        let lives = |pod: &&LocalPod| !pod.terminal && !self.left.contains(&pod.uid);
        let alive: Vec<&LocalPod> = self.roster.pods.iter().filter(lives).collect();
        if alive.len() == self.roster.pods.len() && self.roster.vanished.is_empty() {
            self.set = Arc::clone(&self.roster);
            return;
        }
        self.changes += 1;
        let runs_on = |vanished: &&Vanished| !self.left.contains(&vanished.pod.uid);
        let vanished = self.roster.vanished.iter().filter(runs_on);
        let vanished = vanished.map(|vanished| LocalPod {
            pod: Arc::clone(&vanished.pod),
            cgroup: Some(vanished.cgroup.clone()),
            manifest: None,
        });
        self.set = Arc::new(PodSet {
            // Counts down, so that it never equals a generation of the roster, which counts up from zero.
            generation: u64::MAX - self.changes,
            pods: alive.into_iter().cloned().chain(vanished).collect(),
            rejected: self.roster.rejected.clone(),
            unknown: self.roster.unknown.clone(),
            vanished: self.roster.vanished.clone(),
            warnings: self.roster.warnings.clone(),
            evicted: self.roster.evicted.clone(),
            as_of: self.roster.as_of,
        });
    }

    /// UIDs of live pods that cannot be terminated because no cgroup of theirs is known.
    pub(super) fn without_cgroup(&self) -> BTreeSet<String> {
        let without = self.set.pods.iter().filter(|pod| pod.cgroup.is_none());
        without.map(|pod| pod.uid.clone()).collect()
    }
}
