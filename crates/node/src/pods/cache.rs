//! The pods that evictd knows, admitted and bound to their cgroups: the input of a cycle.

use super::{
    Binder, BoundCgroup, Listed, Listing, LocalPod, PodSet, Rejected, Rejection, Vanished, Warning,
    binding::{Bindings, DepartedPods, Held, LastHeld, Standing},
};
use crate::logging::chain;
use evictd_pod::Pod;
use std::{collections::HashSet, sync::Arc};
use tokio::sync::watch;

/// Turns what a source lists into the set of pods that may be ranked and evicted.
#[derive(Debug)]
pub struct PodCache {
    listings: watch::Receiver<Arc<Listing>>,
    binder: Binder,
    /// Whether pods that no source lists may be chosen.
    ranks_unknown: bool,
    listing: Arc<Listing>,
    /// The pods of `listing`, corrected by what their cgroups show. Parallel to the listing.
    pods: Vec<Arc<Pod>>,
    /// UIDs of the admitted pods; they stay admitted as long as they are listed.
    admitted: HashSet<String>,
    bindings: Bindings,
    /// The bindings when the cgroups were last read.
    last_held: LastHeld,
    /// Pods that are no longer listed and may still run.
    departed: DepartedPods,
    /// Those of them that do run.
    vanished: Vec<Vanished>,
    /// Placeholder pods for the unlisted ones.
    stand_ins: Vec<LocalPod>,
    /// Whether some pod's cgroup shows it differently than in `current`.
    other_standings: bool,
    /// Whether the placeholders differ from those in `current`: one may appear after its cgroup, once its limit is
    /// set.
    other_stand_ins: bool,
    /// Why `bindings` are out of date.
    blind: Option<Warning>,
    current: Arc<PodSet>,
}

impl PodCache {
    /// The pods of a source that was started.
    pub fn new(mut listings: watch::Receiver<Arc<Listing>>, binder: Binder) -> Self {
        listings.mark_changed();
        Self {
            listings,
            binder,
            ranks_unknown: false,
            stand_ins: Vec::new(),
            other_standings: false,
            other_stand_ins: false,
            listing: Arc::default(),
            pods: Vec::new(),
            admitted: HashSet::new(),
            bindings: Bindings::default(),
            last_held: LastHeld::new(),
            departed: DepartedPods::new(),
            vanished: Vec::new(),
            blind: None,
            current: Arc::default(),
        }
    }

    /// Whether pods that no source lists may be chosen; by default they may not.
    #[must_use]
    pub fn ranking_unknown(self, ranks_unknown: bool) -> Self {
        Self {
            ranks_unknown,
            ..self
        }
    }

    /// Waits until the source publishes a new listing. Cancel safe.
    pub async fn changed(&self) {
        let mut listings = self.listings.clone();
        if listings.changed().await.is_err() {
            // The source has ended: its last listing stays.
            std::future::pending::<()>().await;
        }
    }

    /// The present set of pods. Costs very little if the listing has not changed. `admit` is called for each pod
    /// that is not admitted yet, with those that are; for rejected pods it is called again each time.
    pub fn look(
        &mut self,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        let relisted = self.take_listing();
        let others = if relisted {
            self.bind();
            true
        } else {
            !self.vanished.is_empty() && self.find_vanished()
        };
        self.update(relisted, others, admit)
    }

    /// The same, but also reads which cgroups exist. Use it before usage is read.
    pub fn look_afresh(
        &mut self,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        let relisted = self.take_listing();
        self.bind();
        self.update(relisted, true, admit)
    }

    fn take_listing(&mut self) -> bool {
        let relisted = self.listings.has_changed().unwrap_or(false);
        if relisted {
            self.listing = Arc::clone(&self.listings.borrow_and_update());
            for departed in self.listing.departed.iter().rev() {
                let uid = departed.pod.uid.clone();
                self.departed.insert(uid, Arc::clone(departed));
            }
            for listed in &self.listing.pods {
                self.departed.remove(&listed.pod.uid);
            }
            self.pods.clear();
        }
        relisted
    }

    fn bind(&mut self) {
        let listing = Arc::clone(&self.listing);
        let pods = &listing.pods;
        let before = std::mem::take(&mut self.bindings);
        match self.binder.bind(pods, &self.departed, &self.last_held) {
            Ok(bindings) => {
                self.blind = None;
                let remains: HashSet<&str> = bindings
                    .unknown
                    .iter()
                    .map(|group| group.uid.as_str())
                    .collect();
                self.departed
                    .retain(|uid, _| remains.contains(uid.as_str()));
                self.last_held = last_held(pods, &bindings);
                self.bindings = bindings;
                if self.ranks_unknown {
                    let stand_ins = self
                        .binder
                        .stand_ins(&self.bindings.unknown, &self.departed);
                    self.replace_stand_ins(stand_ins);
                }
            }
            Err(error) => {
                let listed: HashSet<&str> = pods.iter().map(|one| one.pod.uid.as_str()).collect();
                self.bindings = self.binder.as_before(pods, &self.last_held);
                self.bindings.unknown = before.unknown;
                let unknown = &mut self.bindings.unknown;
                unknown.retain(|group| !listed.contains(group.uid.as_str()));
                self.blind = Some(Warning::Cgroups {
                    problem: chain(&error),
                });
            }
        }
        self.find_vanished();
        if self.pods.len() != pods.len() || self.bindings.standings != before.standings {
            let standings = &self.bindings.standings;
            self.pods = pods.iter().zip(standings).map(as_it_stands).collect();
            self.other_standings = true;
        }
    }

    /// Finds out which of the pods that are no longer listed still run; true if the result changed.
    fn find_vanished(&mut self) -> bool {
        let found = self.binder.vanished(&self.departed, &self.bindings.unknown);
        let uids = |all: &[Vanished]| -> Vec<String> {
            all.iter().map(|one| one.pod.uid.clone()).collect()
        };
        let others = uids(&found) != uids(&self.vanished);
        self.vanished = found;
        others
    }

    fn replace_stand_ins(&mut self, stand_ins: Vec<LocalPod>) {
        let uids =
            |all: &[LocalPod]| -> Vec<String> { all.iter().map(|pod| pod.uid.clone()).collect() };
        self.other_stand_ins |= uids(&self.stand_ins) != uids(&stand_ins);
        self.stand_ins = stand_ins;
    }

    fn update(
        &mut self,
        relisted: bool,
        rebound: bool,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        if !rebound && self.current.rejected.is_empty() {
            return Arc::clone(&self.current);
        }
        let rejected = self.admit(admit);
        let other_stand_ins = std::mem::take(&mut self.other_stand_ins);
        let other_standings = std::mem::take(&mut self.other_standings);
        let other_pods =
            relisted || other_stand_ins || other_standings || rejected != self.current.rejected;
        if rebound || other_pods {
            let next = self.assemble(rejected);
            if other_pods || differ(&next, &self.current) {
                self.report(&next);
                self.current = Arc::new(next);
            }
        }
        Arc::clone(&self.current)
    }

    fn evicted(&self) -> Vec<String> {
        let listed = self.listing.pods.iter().zip(&self.pods);
        let evicted = listed.filter(|(listed, _)| listed.evicted);
        evicted.map(|(_, pod)| pod.uid.clone()).collect()
    }

    fn admit(
        &mut self,
        mut admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Vec<Rejected> {
        // By the UIDs in the listing, which never change.
        let uids = self.listing.pods.iter().map(|listed| &listed.pod.uid);
        let listed: HashSet<&str> = uids.clone().map(String::as_str).collect();
        self.admitted.retain(|uid| listed.contains(uid.as_str()));
        let pods = uids.zip(&self.pods).zip(&self.bindings.cgroups);
        let (here, new): (Vec<_>, Vec<_>) =
            pods.partition(|((uid, _), _)| self.admitted.contains(*uid));
        let mut here: Vec<&Pod> = here.into_iter().map(|((_, pod), _)| &**pod).collect();
        let mut rejected = Vec::new();
        for ((uid, pod), cgroup) in new {
            match admit(pod, &here) {
                Ok(()) => {
                    self.admitted.insert(uid.clone());
                    here.push(pod);
                }
                Err(rejection) => rejected.push(Rejected {
                    pod: pod.full_name(),
                    uid: pod.uid.clone(),
                    cgroup: cgroup.clone(),
                    rejection,
                }),
            }
        }
        rejected
    }

    fn assemble(&self, rejected: Vec<Rejected>) -> PodSet {
        let pods = self.pods.iter().zip(&self.bindings.cgroups);
        let listed = self.listing.pods.iter().zip(pods);
        let admitted = listed.filter(|(listed, _)| self.admitted.contains(&listed.pod.uid));
        let admitted = admitted.map(|(listed, (pod, cgroup))| LocalPod {
            pod: Arc::clone(pod),
            cgroup: cgroup.clone(),
            manifest: listed.manifest.clone(),
        });
        let pods = admitted.chain(self.stand_ins.iter().cloned()).collect();
        let warnings = self
            .listing
            .warnings
            .iter()
            .chain(&self.blind)
            .chain(&self.bindings.warnings);
        PodSet {
            generation: self.current.generation + 1,
            pods,
            rejected,
            unknown: self.bindings.unknown.clone(),
            vanished: self.vanished.clone(),
            warnings: warnings.cloned().collect(),
            evicted: self.evicted(),
            as_of: self.listing.stale.as_ref().and_then(|stale| stale.as_of),
        }
    }

    /// Logs each new problem once.
    fn report(&self, next: &PodSet) {
        let before = &self.current;
        for warning in &next.warnings {
            if !before.warnings.contains(warning) {
                tracing::warn!("{warning}");
            }
        }
        for gone in &next.vanished {
            let same = |before: &Vanished| before.pod.uid == gone.pod.uid;
            if !before.vanished.iter().any(same) {
                tracing::info!(
                    EVICTD_POD = gone.pod.full_name(),
                    EVICTD_POD_UID = gone.pod.uid,
                    "pod {} is no longer listed and still runs",
                    gone.pod
                );
            }
        }
        for group in &next.unknown {
            if next.vanished.iter().any(|gone| gone.pod.uid == group.uid) {
                continue;
            }
            // The runtime removes a pod's cgroup shortly after the pod is no longer listed.
            let remains = before.pods.iter().any(|pod| pod.uid == group.uid)
                && !self.binder.runs(&group.relative);
            if !before.unknown.contains(group) && !remains {
                let path = group.relative.display();
                tracing::info!(EVICTD_POD_UID = group.uid, "unknown pod in cgroup {path}");
            }
        }
    }
}

/// Whether two sets with the same pods differ in anything else.
fn differ(a: &PodSet, b: &PodSet) -> bool {
    let vanished = |set: &PodSet| -> Vec<String> {
        let vanished = set.vanished.iter();
        vanished.map(|one| one.pod.uid.clone()).collect()
    };
    let cgroups = |set: &PodSet| -> Vec<Option<BoundCgroup>> {
        set.pods.iter().map(|pod| pod.cgroup.clone()).collect()
    };
    cgroups(a) != cgroups(b)
        || a.unknown != b.unknown
        || a.warnings != b.warnings
        || vanished(a) != vanished(b)
}

/// The present binding of each pod, to be used if a later read fails.
fn last_held(pods: &[Listed], bindings: &Bindings) -> LastHeld {
    let found = bindings.cgroups.iter().zip(&bindings.standings);
    let held = found.map(|(cgroup, standing)| Held {
        cgroup: cgroup.clone(),
        standing: *standing,
    });
    let uids = pods.iter().map(|listed| listed.pod.uid.clone());
    uids.zip(held).collect()
}

/// A pod as its cgroup shows it. A static pod's image in the API has another UID than the pod itself.
fn as_it_stands((listed, standing): (&Listed, &Standing)) -> Arc<Pod> {
    let mut pod = Arc::clone(&listed.pod);
    let mirrored = pod.mirror_of().map(str::to_owned);
    if let Some(uid) = mirrored.filter(|_| listed.manifest.is_none()) {
        let pod = Arc::make_mut(&mut pod);
        if standing.is_mirror {
            pod.uid = uid;
        } else {
            pod.deny_mirror();
        }
    }
    if standing.runs_on {
        Arc::make_mut(&mut pod).terminal = false;
    }
    pod
}

#[cfg(test)]
mod tests;
