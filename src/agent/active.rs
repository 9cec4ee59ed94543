//! The pods that are alive as far as the agent knows: those of the roster without the ones it has ended.
//!
//! A manifest says nothing about its pod's fate, so the agent remembers whom it has evicted, until the manifest goes
//! or something runs in that cgroup again.

use crate::{cgroup::Hierarchies, clock, pods::PodSet};
use evictd_eviction::decision::Unreachable;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
};

/// A pod that could not be ended is passed over for this long.
const ASIDE: SignedDuration = SignedDuration::from_mins(1);

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
    evicted: BTreeSet<String>,
    aside: BTreeMap<String, Timestamp>,
    /// Pods that their budgets protect, from soft thresholds only.
    blocked: BTreeMap<String, Timestamp>,
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
        let mut pods = self.roster.pods.iter().zip(&self.roster.cgroups);
        if let Some((_, cgroup)) = pods.find(|(pod, _)| pod.uid == uid) {
            let cgroup = cgroup.as_ref().map(|cgroup| cgroup.relative.clone());
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
        let pods = self.roster.pods.iter().map(|pod| &pod.uid);
        let rejected = self.roster.rejected.iter();
        let mut all = pods
            .zip(&self.roster.cgroups)
            .chain(rejected.map(|one| (&one.uid, &one.cgroup)));
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

    /// Whether the agent has ended this pod.
    pub(super) fn has_evicted(&self, uid: &str) -> bool {
        self.evicted.contains(uid)
    }

    /// Takes the roster's present set; true if anything is different now.
    pub(super) fn take(&mut self, roster: Arc<PodSet>, now: Timestamp) -> bool {
        let mut until = self.aside.values().chain(self.blocked.values());
        let expired = until.any(|until| *until <= now);
        if Arc::ptr_eq(&roster, &self.roster) && !expired {
            return false;
        }
        self.roster = roster;
        self.refresh(now);
        true
    }

    /// Works the set out again.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        self.aside.retain(|_, until| *until > now);
        self.blocked.retain(|_, until| *until > now);
        let listed: BTreeSet<&str> = self
            .roster
            .pods
            .iter()
            .map(|pod| pod.uid.as_str())
            .collect();
        self.evicted.retain(|uid| listed.contains(uid.as_str()));
        let lives = |index: &usize| {
            let pod = &self.roster.pods[*index];
            !pod.terminal && !self.evicted.contains(&pod.uid)
        };
        let alive: Vec<usize> = (0..self.roster.pods.len()).filter(lives).collect();
        if alive.len() == self.roster.pods.len() {
            self.set = Arc::clone(&self.roster);
            return;
        }
        self.changes += 1;
        self.set = Arc::new(PodSet {
            // Never one of the roster's own, which count from zero.
            generation: u64::MAX - self.changes,
            pods: alive
                .iter()
                .map(|index| self.roster.pods[*index].clone())
                .collect(),
            cgroups: alive
                .iter()
                .map(|index| self.roster.cgroups[*index].clone())
                .collect(),
            manifests: alive
                .iter()
                .map(|index| self.roster.manifests[*index].clone())
                .collect(),
            rejected: self.roster.rejected.clone(),
            unknown: self.roster.unknown.clone(),
            vanished: self.roster.vanished.clone(),
            warnings: self.roster.warnings.clone(),
            evicted: self.roster.evicted.clone(),
            as_of: self.roster.as_of,
        });
    }

    /// Evicted pods in whose cgroup something runs again count as alive.
    pub(super) fn revive(&mut self, hierarchies: &Hierarchies) -> bool {
        let roster = &self.roster;
        let runs = |uid: &String| {
            let index = roster.pods.iter().position(|pod| pod.uid == *uid)?;
            let cgroup = roster.cgroups[index].as_ref()?;
            Some(!hierarchies.procs(&cgroup.relative).ok()?.is_empty())
        };
        let before = self.evicted.len();
        self.evicted.retain(|uid| runs(uid) != Some(true));
        self.evicted.len() != before
    }

    /// The agent has ended this pod.
    pub(super) fn evicted(&mut self, uid: &str) {
        self.evicted.insert(uid.to_owned());
    }

    /// This pod could not be ended; others are tried for a while.
    pub(super) fn set_aside(&mut self, uid: &str, now: Timestamp) {
        self.aside.insert(uid.to_owned(), clock::after(now, ASIDE));
    }

    /// This pod's budget does not let it go before this time.
    pub(super) fn block(&mut self, uid: &str, until: Timestamp) {
        self.blocked.insert(uid.to_owned(), until);
    }

    /// No budget counts any more; true if one did.
    pub(super) fn unblock(&mut self) -> bool {
        !std::mem::take(&mut self.blocked).is_empty()
    }

    /// UIDs of pods alive that could not be ended if they were chosen, and why.
    pub(super) fn unreachable(&self) -> BTreeMap<String, Unreachable> {
        let pods = self.set.pods.iter().zip(&self.set.cgroups);
        let found = pods.filter_map(|(pod, cgroup)| {
            let why = if cgroup.is_none() {
                Unreachable::NoCgroup
            } else if self.aside.contains_key(&pod.uid) {
                Unreachable::Failed
            } else if self.blocked.contains_key(&pod.uid) {
                Unreachable::Budget
            } else {
                return None;
            };
            Some((pod.uid.clone(), why))
        });
        found.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pods::BoundCgroup;
    use evictd_pod::{Pod, wire};

    #[test]
    fn why_a_pod_could_not_be_ended_is_told_apart() {
        let pod = |uid: &str| {
            let text = format!(r#"{{"metadata":{{"uid":"{uid}"}}}}"#);
            let pod: wire::Pod = serde_json::from_str(&text).unwrap();
            Pod::from_wire(pod)
        };
        let cgroup = Some(BoundCgroup {
            relative: PathBuf::from("pod"),
            by_annotation: false,
        });
        let roster = PodSet {
            pods: ["fine", "bare", "failed", "blocked", "both"]
                .map(pod)
                .into(),
            cgroups: vec![cgroup.clone(), None, cgroup.clone(), cgroup.clone(), cgroup],
            ..PodSet::default()
        };
        let now = Timestamp::UNIX_EPOCH;
        let mut active = Active::default();
        active.take(Arc::new(roster), now);
        for uid in ["failed", "both"] {
            active.set_aside(uid, now);
        }
        for uid in ["blocked", "both", "bare"] {
            active.block(uid, clock::after(now, ASIDE));
        }
        let expected = [
            ("bare", Unreachable::NoCgroup),
            ("failed", Unreachable::Failed),
            ("blocked", Unreachable::Budget),
            ("both", Unreachable::Failed),
        ];
        let expected = expected.map(|(uid, why)| (uid.to_owned(), why));
        assert_eq!(active.unreachable(), expected.into());
        assert!(active.unblock());
        assert!(!active.unreachable().contains_key("blocked"));
    }
}
