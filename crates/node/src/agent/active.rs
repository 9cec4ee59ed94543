//! The pods that are alive as far as the agent knows: those of the roster without the ones it has ended, and those that are
//! listed no more and run.
//!
//! A manifest says nothing about its pod's fate, so what has left stays out until the manifest goes or something runs in
//! that cgroup again.

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
    /// It has none here.
    Nowhere,
    /// Nobody can tell at present.
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

    /// Whether nobody lists the pod with this UID.
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

    /// The cgroup of a pod that is here, let in or not.
    pub(super) fn cgroup_of(&self, uid: &str) -> Option<&Path> {
        let pods = self.roster.pods.iter().map(|pod| (&pod.uid, &pod.cgroup));
        let rejected = self.roster.rejected.iter();
        let mut all = pods.chain(rejected.map(|one| (&one.uid, &one.cgroup)));
        let (_, cgroup) = all.find(|(found, _)| *found == uid)?;
        cgroup.as_ref().map(|cgroup| cgroup.relative.as_path())
    }

    /// Whether this pod is here and let in.
    pub(super) fn is_in(&self, uid: &str) -> bool {
        self.roster.pods.iter().any(|pod| pod.uid == uid)
    }

    /// Whether this pod is here, let in or not.
    pub(super) fn is_listed(&self, uid: &str) -> bool {
        let mut rejected = self.roster.rejected.iter();
        self.is_in(uid) || rejected.any(|one| one.uid == uid)
    }

    /// Whether this pod is said to have ended.
    pub(super) fn has_ended(&self, uid: &str) -> bool {
        let mut pods = self.roster.pods.iter();
        pods.any(|pod| pod.uid == uid && pod.terminal)
    }

    /// Whether the kubelet was seen to end this pod before.
    pub(super) fn was_evicted_elsewhere(&self, uid: &str) -> bool {
        self.roster.evicted.iter().any(|evicted| evicted == uid)
    }

    /// Takes the roster's present set, without those that `have_left`; true if anything is different now.
    pub(super) fn take(&mut self, roster: Arc<PodSet>, have_left: BTreeSet<String>) -> bool {
        if Arc::ptr_eq(&roster, &self.roster) && have_left == self.left {
            return false;
        }
        self.roster = roster;
        self.left = have_left;
        self.work_out();
        true
    }

    /// The same set, and others may have left.
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
            // Never one of the roster's own, which count from zero.
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

    /// UIDs of pods alive that could not be ended if they were chosen, since no cgroup of theirs is known.
    pub(super) fn without_cgroup(&self) -> BTreeSet<String> {
        let without = self.set.pods.iter().filter(|pod| pod.cgroup.is_none());
        without.map(|pod| pod.uid.clone()).collect()
    }
}
