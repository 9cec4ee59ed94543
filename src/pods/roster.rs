//! The pods that evictd knows, admitted and tied to their cgroups: what a cycle works on.

use super::{
    Binder, BoundCgroup, Listing, PodSet, Rejected, Rejection, Warning, binding::Bindings,
};
use crate::logging::chain;
use evictd_pod::Pod;
use std::{collections::HashSet, sync::Arc};
use tokio::sync::watch;

/// Turns what a source lists into the set of pods that may be ranked and evicted.
#[derive(Debug)]
pub struct Roster {
    listings: watch::Receiver<Arc<Listing>>,
    binder: Binder,
    /// Whether pods that nobody lists may be chosen.
    ranks_unknown: bool,
    listing: Arc<Listing>,
    /// UIDs of the pods that were let in; they stay in as long as they are listed.
    admitted: HashSet<String>,
    bindings: Bindings,
    /// What stands in for those that nobody lists.
    stand_ins: Vec<(Pod, BoundCgroup)>,
    /// Others than in `current`: one may stand in for a group only later, when its limit is written.
    other_stand_ins: bool,
    /// Why `bindings` are not those of now.
    blind: Option<Warning>,
    current: Arc<PodSet>,
}

impl Roster {
    /// The pods of a source that was started.
    pub fn new(mut listings: watch::Receiver<Arc<Listing>>, binder: Binder) -> Self {
        listings.mark_changed();
        Self {
            listings,
            binder,
            ranks_unknown: false,
            stand_ins: Vec::new(),
            other_stand_ins: false,
            listing: Arc::default(),
            admitted: HashSet::new(),
            bindings: Bindings::default(),
            blind: None,
            current: Arc::default(),
        }
    }

    /// Whether pods that nobody lists may be chosen, too; at first they may not.
    #[must_use]
    pub fn ranking_unknown(self, ranks_unknown: bool) -> Self {
        Self {
            ranks_unknown,
            ..self
        }
    }

    /// Waits until the source lists something else than at the last look. Cancel safe.
    pub async fn changed(&self) {
        let mut listings = self.listings.clone();
        if listings.changed().await.is_err() {
            // The source is gone; what it last said is all there will be.
            std::future::pending::<()>().await;
        }
    }

    /// The pods of now. Costs next to nothing while the source lists what it did before. `admit` is asked about each
    /// pod that is not in yet, beside those that are, and again at each look about those it kept out.
    pub fn look(
        &mut self,
        admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Arc<PodSet> {
        let relisted = self.take_listing();
        if relisted {
            self.bind();
        }
        self.update(relisted, relisted, admit)
    }

    /// The same, and also looks which cgroups came and went: for the moment before usage is read.
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
        }
        relisted
    }

    fn bind(&mut self) {
        match self.binder.bind(&self.listing.pods) {
            Ok(bindings) => {
                self.bindings = bindings;
                self.blind = None;
                if self.ranks_unknown {
                    let stand_ins = self.binder.stand_ins(&self.bindings.unknown);
                    self.replace_stand_ins(stand_ins);
                }
            }
            Err(error) => {
                // Indices may have moved: a binding that can't be verified is none.
                self.bindings = Bindings {
                    cgroups: vec![None; self.listing.pods.len()],
                    ..Bindings::default()
                };
                self.replace_stand_ins(Vec::new());
                self.blind = Some(Warning::Cgroups {
                    problem: chain(&error),
                });
            }
        }
    }

    fn replace_stand_ins(&mut self, stand_ins: Vec<(Pod, BoundCgroup)>) {
        let uids = |all: &[(Pod, BoundCgroup)]| -> Vec<String> {
            all.iter().map(|(pod, _)| pod.uid.clone()).collect()
        };
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
        let other_pods = relisted || other_stand_ins || rejected != self.current.rejected;
        if rebound || other_pods {
            let next = self.assemble(rejected, other_pods);
            if other_pods || differ(&next, &self.current) {
                self.report(&next);
                self.current = Arc::new(next);
            }
        }
        Arc::clone(&self.current)
    }

    fn evicted(&self) -> Vec<String> {
        let listed = self.listing.pods.iter().filter(|listed| listed.evicted);
        listed.map(|listed| listed.pod.uid.clone()).collect()
    }

    fn admit(
        &mut self,
        mut admit: impl FnMut(&Pod, &[&Pod]) -> Result<(), Rejection>,
    ) -> Vec<Rejected> {
        let listed: HashSet<&str> = self
            .listing
            .pods
            .iter()
            .map(|listed| listed.pod.uid.as_str())
            .collect();
        self.admitted.retain(|uid| listed.contains(uid.as_str()));
        let (here, new): (Vec<_>, Vec<_>) = self
            .listing
            .pods
            .iter()
            .map(|listed| &listed.pod)
            .zip(&self.bindings.cgroups)
            .partition(|(pod, _)| self.admitted.contains(&pod.uid));
        let mut here: Vec<&Pod> = here.into_iter().map(|(pod, _)| pod).collect();
        let mut rejected = Vec::new();
        for (pod, cgroup) in new {
            match admit(pod, &here) {
                Ok(()) => {
                    self.admitted.insert(pod.uid.clone());
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

    fn assemble(&self, rejected: Vec<Rejected>, other_pods: bool) -> PodSet {
        let listed = self.listing.pods.iter().zip(&self.bindings.cgroups);
        let admitted: Vec<_> = listed
            .filter(|(listed, _)| self.admitted.contains(&listed.pod.uid))
            .collect();
        let pods = if other_pods {
            admitted
                .iter()
                .map(|(listed, _)| &listed.pod)
                .chain(self.stand_ins.iter().map(|(pod, _)| pod))
                .cloned()
                .collect()
        } else {
            Arc::clone(&self.current.pods)
        };
        let warnings = self
            .listing
            .warnings
            .iter()
            .chain(&self.blind)
            .chain(&self.bindings.warnings);
        PodSet {
            generation: self.current.generation + 1,
            pods,
            cgroups: admitted
                .iter()
                .map(|(_, cgroup)| (*cgroup).clone())
                .chain(
                    self.stand_ins
                        .iter()
                        .map(|(_, cgroup)| Some(cgroup.clone())),
                )
                .collect(),
            manifests: admitted
                .iter()
                .map(|(listed, _)| listed.manifest.clone())
                .chain(self.stand_ins.iter().map(|_| None))
                .collect(),
            rejected,
            unknown: self.bindings.unknown.clone(),
            warnings: warnings.cloned().collect(),
            evicted: self.evicted(),
            as_of: self.listing.stale.as_ref().and_then(|stale| stale.as_of),
        }
    }

    /// Says what is new, once.
    fn report(&self, next: &PodSet) {
        let before = &self.current;
        for warning in &next.warnings {
            if !before.warnings.contains(warning) {
                tracing::warn!("{warning}");
            }
        }
        for group in &next.unknown {
            // The runtime removes a pod's group a moment after the pod is listed no more.
            let remains = before.pods.iter().any(|pod| pod.uid == group.uid)
                && !self.binder.runs(&group.relative);
            if !before.unknown.contains(group) && !remains {
                let path = group.relative.display();
                tracing::info!(EVICTD_POD_UID = group.uid, "unknown pod in cgroup {path}");
            }
        }
    }
}

/// Whether two sets of the same pods differ otherwise.
fn differ(a: &PodSet, b: &PodSet) -> bool {
    a.cgroups != b.cgroups || a.unknown != b.unknown || a.warnings != b.warnings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cgroup::Hierarchies;
    use crate::{pods::Listed, testing::logged};
    use evictd_pod::wire;
    use std::{fs, path::PathBuf};

    struct Bench {
        top: tempfile::TempDir,
        sender: watch::Sender<Arc<Listing>>,
        roster: Roster,
    }

    impl Bench {
        fn new() -> Self {
            let top = tempfile::tempdir().unwrap();
            let (cgroup, proc) = (top.path().join("cgroup"), top.path().join("proc"));
            fs::create_dir_all(cgroup.join("memory/kubepods")).unwrap();
            fs::create_dir_all(proc.join("self")).unwrap();
            fs::write(proc.join("self/cgroup"), "4:memory:/system\n").unwrap();
            let sender = watch::Sender::default();
            let binder = Binder::new(Hierarchies::detect(&cgroup).unwrap(), proc, Vec::new());
            let roster = Roster::new(sender.subscribe(), binder);
            Self {
                top,
                sender,
                roster,
            }
        }

        fn group(&self, uid: &str) -> PathBuf {
            self.top
                .path()
                .join("cgroup/memory/kubepods")
                .join(format!("pod{uid}"))
        }

        fn list(&self, uids: &[&str]) {
            let listed = uids.iter().map(|uid| {
                let mut pod = wire::Pod::default();
                pod.metadata.name = format!("pod-{uid}");
                pod.metadata.uid = (*uid).to_owned();
                Listed {
                    pod: Pod::from_wire(pod),
                    manifest: None,
                    wire: None,
                    evicted: false,
                    evicted_at: None,
                }
            });
            let listing = Listing {
                pods: listed.collect(),
                ..Listing::default()
            };
            self.sender.send_replace(Arc::new(listing));
        }
    }

    fn gate(open: bool) -> impl Fn(&Pod, &[&Pod]) -> Result<(), Rejection> {
        move |_, _| {
            open.then_some(()).ok_or_else(|| Rejection {
                reason: "Evicted".to_owned(),
                message: "The node had condition: [MemoryPressure]. ".to_owned(),
            })
        }
    }

    fn uids(set: &PodSet) -> Vec<&str> {
        set.pods.iter().map(|pod| pod.uid.as_str()).collect()
    }

    #[test]
    fn an_empty_group_of_a_pod_that_just_left_is_no_unknown_pod() {
        let said = |processes: &str| {
            let mut bench = Bench::new();
            fs::create_dir(bench.group("1")).unwrap();
            fs::write(bench.group("1").join("cgroup.procs"), processes).unwrap();
            bench.list(&["1"]);
            bench.roster.look(gate(true));
            bench.list(&[]);
            logged(|| {
                assert_eq!(bench.roster.look(gate(true)).unknown.len(), 1);
                bench.roster.look_afresh(gate(true));
            })
        };
        assert_eq!(said(""), "");
        let lines = said("7\n");
        assert!(
            lines.contains("unknown pod in cgroup kubepods/pod1"),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 1, "{lines}");
    }

    #[test]
    fn a_look_at_nothing_new_is_the_same_set() {
        let mut bench = Bench::new();
        bench.list(&["1", "2"]);
        let first = bench.roster.look(gate(true));
        assert_eq!(uids(&first), ["1", "2"]);
        assert!(Arc::ptr_eq(&first, &bench.roster.look(gate(false))));
        assert!(Arc::ptr_eq(&first, &bench.roster.look_afresh(gate(false))));
        bench.list(&["2"]);
        let second = bench.roster.look(gate(false));
        assert_eq!(uids(&second), ["2"]);
        assert_eq!(second.generation, first.generation + 1);
    }

    #[test]
    fn cgroups_that_come_and_go_are_seen_by_a_fresh_look() {
        let mut bench = Bench::new();
        bench.list(&["1"]);
        assert_eq!(bench.roster.look(gate(true)).cgroups, [None]);
        fs::create_dir(bench.group("1")).unwrap();
        fs::create_dir(bench.group("stranger")).unwrap();
        assert_eq!(bench.roster.look(gate(true)).cgroups, [None]);
        let set = bench.roster.look_afresh(gate(true));
        assert_eq!(
            set.cgroups[0].as_ref().unwrap().relative,
            PathBuf::from("kubepods/pod1")
        );
        assert_eq!(set.unknown[0].uid, "stranger");
        // The pods themselves are not copied for that.
        assert!(Arc::ptr_eq(&set.pods, &bench.roster.look(gate(true)).pods));
        fs::remove_dir(bench.group("1")).unwrap();
        assert_eq!(bench.roster.look_afresh(gate(true)).cgroups, [None]);
    }

    #[test]
    fn a_pod_that_nobody_lists_comes_in_whole_when_its_limit_is_written() {
        let mut bench = Bench::new();
        let binder = Binder::new(
            Hierarchies::detect(&bench.top.path().join("cgroup")).unwrap(),
            bench.top.path().join("proc"),
            vec![PathBuf::from("kubepods")],
        );
        bench.roster = Roster::new(bench.sender.subscribe(), binder).ranking_unknown(true);
        bench.list(&["1"]);
        let group = bench.group("a-guaranteed");
        fs::create_dir(&group).unwrap();
        let set = bench.roster.look_afresh(gate(true));
        assert_eq!((uids(&set), set.cgroups.len()), (vec!["1"], 1));
        let limit = group.join("memory.limit_in_bytes");
        fs::write(&limit, "67108864").unwrap();
        let set = bench.roster.look_afresh(gate(true));
        assert_eq!(uids(&set), ["1", "a-guaranteed"]);
        assert_eq!((set.cgroups.len(), set.manifests.len()), (2, 2));
        assert!(Arc::ptr_eq(&set, &bench.roster.look_afresh(gate(true))));
        fs::remove_file(&limit).unwrap();
        let set = bench.roster.look_afresh(gate(true));
        assert_eq!((uids(&set), set.cgroups.len()), (vec!["1"], 1));
    }

    #[test]
    fn s1_088_a_pod_that_is_not_admitted_waits_outside_and_an_admitted_one_stays() {
        let mut bench = Bench::new();
        bench.list(&["old"]);
        bench.roster.look(gate(true));
        fs::create_dir(bench.group("new")).unwrap();
        bench.list(&["new", "old"]);
        let set = bench.roster.look(gate(false));
        assert_eq!(uids(&set), ["old"]);
        assert_eq!((set.cgroups.len(), set.manifests.len()), (1, 1));
        assert_eq!(set.rejected[0].uid, "new");
        assert_eq!(set.rejected[0].rejection.reason, "Evicted");
        assert!(set.rejected[0].cgroup.is_some());
        // It is no stranger either.
        assert_eq!(set.unknown, []);
        assert!(Arc::ptr_eq(&set, &bench.roster.look(gate(false))));
        let set = bench.roster.look(gate(true));
        assert_eq!(uids(&set), ["new", "old"]);
        assert!(set.cgroups[0].is_some());
        assert_eq!(set.rejected, []);
    }

    #[test]
    fn a_pod_that_left_is_new_when_it_returns() {
        let mut bench = Bench::new();
        bench.list(&["1"]);
        bench.roster.look(gate(true));
        bench.list(&[]);
        bench.roster.look(gate(true));
        bench.list(&["1"]);
        assert_eq!(bench.roster.look(gate(false)).rejected.len(), 1);
    }

    #[test]
    fn unreadable_cgroups_untie_every_pod_and_say_so() {
        let mut bench = Bench::new();
        fs::create_dir(bench.group("1")).unwrap();
        bench.list(&["1"]);
        assert!(bench.roster.look(gate(true)).cgroups[0].is_some());
        fs::remove_file(bench.top.path().join("proc/self/cgroup")).unwrap();
        let set = bench.roster.look_afresh(gate(true));
        assert_eq!(set.cgroups, [None]);
        assert!(set.warnings[0].to_string().contains("proc/self/cgroup"));
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_a_new_listing_and_never_with_a_lost_source() {
        let mut bench = Bench::new();
        bench.roster.look(gate(true));
        let minute = std::time::Duration::from_mins(1);
        assert!(
            tokio::time::timeout(minute, bench.roster.changed())
                .await
                .is_err()
        );
        bench.list(&["1"]);
        bench.roster.changed().await;
        bench.roster.look(gate(true));
        bench.sender = watch::Sender::default();
        assert!(
            tokio::time::timeout(minute, bench.roster.changed())
                .await
                .is_err()
        );
    }
}
