//! The pods that evictd knows, admitted and bound to their cgroups: the input of a cycle.

use super::{
    Binder, BoundCgroup, Listed, Listing, LocalPod, PodSet, Rejected, Rejection, StillRunning,
    Warning,
    binding::{Bindings, CgroupCheck, DeletedPods, LastBinding, LastBindings},
};
use crate::logging::chain;
use evictd_pod::Pod;
use std::{collections::HashSet, sync::Arc};
use tokio::sync::watch;

/// Turns the listings of a source into the set of pods that may be ranked and evicted.
#[derive(Debug)]
pub struct PodCache {
    listings: watch::Receiver<Arc<Listing>>,
    binder: Binder,
    /// Whether pods that no source lists may be chosen.
    ranks_unknown: bool,
    listing: Arc<Listing>,
    /// The pods of `listing`, corrected by the state of their cgroups. Parallel to the listing.
    pods: Vec<Arc<Pod>>,
    /// UIDs of the admitted pods; they stay admitted as long as they are listed.
    admitted: HashSet<String>,
    bindings: Bindings,
    /// The bindings when the cgroups were last read.
    last_bindings: LastBindings,
    /// Pods that are no longer listed and may still run.
    deleted: DeletedPods,
    /// Those of them that do run.
    still_running: Vec<StillRunning>,
    /// Placeholder pods for the unlisted ones.
    placeholders: Vec<LocalPod>,
    /// Whether some pod's cgroup shows it differently than in `current`.
    cgroup_checks_changed: bool,
    /// Whether the placeholders differ from those in `current`: one may appear after its cgroup, once its limit is
    /// set.
    placeholders_changed: bool,
    /// Why `bindings` are out of date.
    read_error: Option<Warning>,
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
            placeholders: Vec::new(),
            cgroup_checks_changed: false,
            placeholders_changed: false,
            listing: Arc::default(),
            pods: Vec::new(),
            admitted: HashSet::new(),
            bindings: Bindings::default(),
            last_bindings: LastBindings::new(),
            deleted: DeletedPods::new(),
            still_running: Vec::new(),
            read_error: None,
            current: Arc::default(),
        }
    }

    /// Whether pods that no source lists may be chosen; by default they may not.
    #[must_use]
    pub(crate) fn ranking_unknown(self, ranks_unknown: bool) -> Self {
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
    pub fn snapshot(
        &mut self,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        let relisted = self.take_listing();
        let others = if relisted {
            self.bind();
            true
        } else {
            !self.still_running.is_empty() && self.find_still_running()
        };
        self.next_set(relisted, others, admit)
    }

    /// The same, but also reads which cgroups exist. Use it before usage is read.
    pub(crate) fn fresh_snapshot(
        &mut self,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        let relisted = self.take_listing();
        self.bind();
        self.next_set(relisted, true, admit)
    }

    fn take_listing(&mut self) -> bool {
        let relisted = self.listings.has_changed().unwrap_or(false);
        if relisted {
            self.listing = Arc::clone(&self.listings.borrow_and_update());
            // The latest deletion of a UID is first in the listing, so it is inserted last and stays.
            for deleted in self.listing.deleted.iter().rev() {
                let uid = deleted.pod.uid.clone();
                self.deleted.insert(uid, Arc::clone(deleted));
            }
            // A source that lists a pod again knows more than the one that deleted it.
            for listed in &self.listing.pods {
                self.deleted.remove(&listed.pod.uid);
            }
            self.pods.clear();
        }
        relisted
    }

    fn bind(&mut self) {
        let listing = Arc::clone(&self.listing);
        let pods = &listing.pods;
        let before = std::mem::take(&mut self.bindings);
        match self.binder.bind(pods, &self.deleted, &self.last_bindings) {
            Ok(bindings) => {
                self.read_error = None;
                let remains: HashSet<&str> = bindings
                    .unknown
                    .iter()
                    .map(|group| group.uid.as_str())
                    .collect();
                // Without a cgroup nothing of a deleted pod can still run.
                self.deleted.retain(|uid, _| remains.contains(uid.as_str()));
                self.last_bindings = last_bindings(pods, &bindings);
                self.bindings = bindings;
                if self.ranks_unknown {
                    let placeholders = self
                        .binder
                        .placeholders(&self.bindings.unknown, &self.deleted);
                    self.replace_placeholders(placeholders);
                }
            }
            Err(error) => {
                let listed: HashSet<&str> = pods.iter().map(|one| one.pod.uid.as_str()).collect();
                // The last cgroups are kept: a pod must not lose its protection or its usage for one failed read.
                self.bindings = self.binder.last_known(pods, &self.last_bindings);
                self.bindings.unknown = before.unknown;
                let unknown = &mut self.bindings.unknown;
                unknown.retain(|group| !listed.contains(group.uid.as_str()));
                self.read_error = Some(Warning::Cgroups {
                    problem: chain(&error),
                });
            }
        }
        self.find_still_running();
        if self.pods.len() != pods.len() || self.bindings.cgroup_checks != before.cgroup_checks {
            let cgroup_checks = &self.bindings.cgroup_checks;
            self.pods = pods.iter().zip(cgroup_checks).map(corrected).collect();
            self.cgroup_checks_changed = true;
        }
    }

    /// Finds out which of the pods that are no longer listed still run; true if the result changed.
    fn find_still_running(&mut self) -> bool {
        let found = self
            .binder
            .still_running(&self.deleted, &self.bindings.unknown);
        let uids = |all: &[StillRunning]| -> Vec<String> {
            all.iter().map(|one| one.pod.uid.clone()).collect()
        };
        let others = uids(&found) != uids(&self.still_running);
        self.still_running = found;
        others
    }

    fn replace_placeholders(&mut self, placeholders: Vec<LocalPod>) {
        let uids =
            |all: &[LocalPod]| -> Vec<String> { all.iter().map(|pod| pod.uid.clone()).collect() };
        self.placeholders_changed |= uids(&self.placeholders) != uids(&placeholders);
        self.placeholders = placeholders;
    }

    fn next_set(
        &mut self,
        relisted: bool,
        rebound: bool,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        // Rejected pods are checked in every cycle, because their conditions may be over.
        if !rebound && self.current.rejected.is_empty() {
            return Arc::clone(&self.current);
        }
        let rejected = self.admit(admit);
        let placeholders_changed = std::mem::take(&mut self.placeholders_changed);
        let cgroup_checks_changed = std::mem::take(&mut self.cgroup_checks_changed);
        let other_pods = relisted
            || placeholders_changed
            || cgroup_checks_changed
            || rejected != self.current.rejected;
        if rebound || other_pods {
            let next = self.assemble(rejected);
            // An equal set keeps its generation, so that readers keep their open files.
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
                    // The next new pod is checked beside this one: both may have come in the same listing.
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
        let admitted = listed
            .filter(|(listed, _)| self.admitted.contains(&listed.pod.uid))
            .map(|(listed, (pod, cgroup))| LocalPod {
                pod: Arc::clone(pod),
                cgroup: cgroup.clone(),
                manifest: listed.manifest.clone(),
            });
        let pods = admitted.chain(self.placeholders.iter().cloned()).collect();
        let warnings = self
            .listing
            .warnings
            .iter()
            .chain(&self.read_error)
            .chain(&self.bindings.warnings);
        PodSet {
            generation: self.current.generation + 1,
            pods,
            rejected,
            unknown: self.bindings.unknown.clone(),
            still_running: self.still_running.clone(),
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
        for gone in &next.still_running {
            let same = |before: &StillRunning| before.pod.uid == gone.pod.uid;
            if !before.still_running.iter().any(same) {
                tracing::info!(
                    EVICTD_POD = gone.pod.full_name(),
                    EVICTD_POD_UID = gone.pod.uid,
                    "pod {} is no longer listed and still runs",
                    gone.pod
                );
            }
        }
        for group in &next.unknown {
            if next
                .still_running
                .iter()
                .any(|gone| gone.pod.uid == group.uid)
            {
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
    let still_running = |set: &PodSet| -> Vec<String> {
        let still_running = set.still_running.iter();
        still_running.map(|one| one.pod.uid.clone()).collect()
    };
    let cgroups = |set: &PodSet| -> Vec<Option<BoundCgroup>> {
        set.pods.iter().map(|pod| pod.cgroup.clone()).collect()
    };
    cgroups(a) != cgroups(b)
        || a.unknown != b.unknown
        || a.warnings != b.warnings
        || still_running(a) != still_running(b)
}

/// The present binding of each pod, to be used if a later read fails.
fn last_bindings(pods: &[Listed], bindings: &Bindings) -> LastBindings {
    let found = bindings.cgroups.iter().zip(&bindings.cgroup_checks);
    let held = found.map(|(cgroup, cgroup_check)| LastBinding {
        cgroup: cgroup.clone(),
        cgroup_check: *cgroup_check,
    });
    let uids = pods.iter().map(|listed| listed.pod.uid.clone());
    uids.zip(held).collect()
}

/// A pod as its cgroup shows it. A static pod's image in the API has another UID than the pod itself.
fn corrected((listed, cgroup_check): (&Listed, &CgroupCheck)) -> Arc<Pod> {
    let mut pod = Arc::clone(&listed.pod);
    let mirrored = pod.mirror_of().map(str::to_owned);
    if let Some(uid) = mirrored.filter(|_| listed.manifest.is_none()) {
        let pod = Arc::make_mut(&mut pod);
        if cgroup_check.is_mirror {
            pod.uid = uid;
        } else {
            pod.deny_mirror();
        }
    }
    // A status may be written by anybody with the right to; the kernel knows better whether it runs.
    if cgroup_check.still_runs {
        Arc::make_mut(&mut pod).terminal = false;
    }
    pod
}

#[cfg(test)]
mod tests;
