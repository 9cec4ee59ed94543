//! The victim's cgroup: whether it may be killed at all, which processes are in it, and when that changes.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep};

use super::process::{self, Stat};
use super::{KillError, Refusal, Survivor, Victim};
use crate::cgroup::{
    CgroupError, Controller, GroupDir, Hierarchies, OwnCgroups, container_of, normalized, pod_uid,
};

/// The cgroup of a victim that passed every check of [`Group::open`].
pub(super) struct Group<'a> {
    hierarchies: &'a Hierarchies,
    proc_root: &'a Path,
    /// Relative to the root of its hierarchy.
    pub(super) relative: PathBuf,
    /// The hierarchy whose list of processes is used: a v1 controller's, or `None` for the cgroup2 tree.
    hierarchy: Option<Controller>,
    /// Its directory in that hierarchy. A cgroup that was removed and created again is another one.
    home: GroupDir,
}

/// Processes of the cgroup that could be seen, and the error if some could not.
#[derive(Default)]
pub(super) struct ProcessList {
    pub(super) pids: Vec<u32>,
    pub(super) error: Option<KillError>,
}

impl ProcessList {
    /// All processes; the error if some could not be seen.
    fn whole(self) -> Result<Vec<u32>, KillError> {
        self.error.map_or(Ok(self.pids), Err)
    }
}

impl<'a> Group<'a> {
    /// Opens the cgroup, and refuses one that must never be killed. `None` if the cgroup does not exist (any more).
    pub(super) fn open(
        hierarchies: &'a Hierarchies,
        proc_root: &'a Path,
        pod_roots: &[PathBuf],
        victim: &Victim,
    ) -> Result<Option<Self>, KillError> {
        let refused = |why| KillError::Refused {
            cgroup: victim.cgroup.clone(),
            why,
        };
        let relative =
            normalized(&victim.cgroup).ok_or_else(|| refused(Refusal::OutsidePodCgroups))?;
        let below = |root: &PathBuf| {
            normalized(root).is_some_and(|root| relative != root && relative.starts_with(root))
        };
        // Strictly below: the root itself holds every pod.
        if !pod_roots.iter().any(below) {
            return Err(refused(Refusal::OutsidePodCgroups));
        }
        if OwnCgroups::read(hierarchies, proc_root)?.are_within(&relative) {
            return Err(refused(Refusal::HoldsEvictd));
        }
        // The name of the group is the kubelet's own word for whose it is.
        if let Some(found) = pod_uid(&relative).filter(|found| *found != victim.uid) {
            return Err(refused(Refusal::OtherPod { found }));
        }
        let home = hierarchies
            .process_hierarchy(&relative)
            .and_then(|(hierarchy, dir)| Ok((hierarchy, GroupDir::open(&dir)?)));
        let (hierarchy, home) = match home {
            Err(error) if error.is_gone() => return Ok(None),
            found => found?,
        };
        let group = Self {
            hierarchies,
            proc_root,
            relative,
            hierarchy,
            home,
        };
        // If /proc hides process 1, the cgroup's own list shows whether it is in there.
        if group
            .is_in(1, hierarchy)
            .is_ok_and(|found| found == Some(true))
        {
            return Err(refused(Refusal::HoldsInit));
        }
        Ok(Some(group))
    }

    /// Its directory in the cgroup2 tree, if that is the hierarchy in use.
    pub(super) fn cgroup2_dir(&self) -> Option<&GroupDir> {
        self.hierarchy.is_none().then_some(&self.home)
    }

    /// Its directory in a controller's hierarchy; `None` if it has none there.
    pub(super) fn dir(&self, controller: Controller) -> Result<Option<GroupDir>, CgroupError> {
        open_if_exists(self.hierarchies.dir(controller, &self.relative))
    }

    /// Processes listed in and below `dir`, a directory of this cgroup in any hierarchy; none if it does not exist.
    fn list(&self, dir: &GroupDir) -> Result<ProcessList, KillError> {
        let (pids, outcome) = dir.processes();
        let refused = |why| KillError::Refused {
            cgroup: self.relative.clone(),
            why,
        };
        // Processes of a foreign pid namespace have no id here by which they could be signalled or checked.
        if pids.contains(&0) {
            return Err(KillError::ForeignPidNamespace {
                cgroup: self.relative.clone(),
            });
        }
        if pids.contains(&1) {
            return Err(refused(Refusal::HoldsInit));
        }
        if pids.contains(&std::process::id()) {
            return Err(refused(Refusal::HoldsEvictd));
        }
        // What was read before the error counts: killing a part of the processes is better than killing none.
        let error = outcome.err().filter(|error| !error.is_gone());
        Ok(ProcessList {
            pids,
            error: error.map(KillError::Cgroup),
        })
    }

    /// The same, but an error if some could not be seen.
    pub(super) fn listed(&self, dir: &GroupDir) -> Result<Vec<u32>, KillError> {
        self.list(dir)?.whole()
    }

    /// Whether the process, which the caller holds by a pidfd, is in this cgroup: according to its `/proc` entry,
    /// or else to the cgroup's list.
    pub(super) fn holds(&self, pid: u32) -> Result<bool, KillError> {
        if let Ok(Some(is_in)) = self.is_in(pid, self.hierarchy) {
            return Ok(is_in);
        }
        // Its `/proc` entry is hidden, or its path is longer than the kernel shows. The pidfd keeps its id from
        // being reused, so the list is reliable.
        let list = self.list(&self.home)?;
        let listed = list.pids.binary_search(&pid).is_ok();
        Ok(listed || list.whole().map(|_| false)?)
    }

    fn is_in(&self, pid: u32, hierarchy: Option<Controller>) -> Result<Option<bool>, CgroupError> {
        process::is_member(
            self.hierarchies,
            self.proc_root,
            pid,
            hierarchy,
            &self.relative,
        )
    }

    /// The directory of this cgroup in the cgroup2 tree, if that contains exactly the processes of the cgroup.
    pub(super) fn cgroup2_dir_with_same_processes(
        &self,
        pids: &[u32],
    ) -> Result<Option<GroupDir>, KillError> {
        let unified = self.hierarchies.unified(&self.relative);
        let Some(unified) = open_if_exists(unified)? else {
            return Ok(None);
        };
        let here: BTreeSet<_> = pids.iter().copied().collect();
        let there: BTreeSet<_> = self.listed(&unified)?.into_iter().collect();
        // A process in only one list has started or exited between the two reads, or is really elsewhere.
        for &pid in here.symmetric_difference(&there) {
            let is_in = |hierarchy| Ok::<_, CgroupError>(self.is_in(pid, hierarchy)? == Some(true));
            let in_both = is_in(self.hierarchy)? && is_in(None)?;
            if !in_both && self.is_settled(pid)? {
                return Ok(None);
            }
        }
        Ok(Some(unified))
    }

    /// The listed processes outside the given cgroups; none once all of them are dead.
    pub(super) fn live_processes(&self, sandboxes: &[OsString]) -> Result<ProcessList, KillError> {
        live(
            || self.list_outside(sandboxes),
            |list| list.error.is_some() || self.any_alive(list),
        )
    }

    fn any_alive(&self, list: &mut ProcessList) -> bool {
        let alive = list.pids.iter().map(|pid| self.is_alive(*pid));
        for is_alive in alive {
            match is_alive {
                Ok(false) => {}
                Ok(true) => return true,
                Err(error) => {
                    list.error = Some(error);
                    return true;
                }
            }
        }
        false
    }

    /// Refuses a cgroup whose processes all say that they are in another one: then no later check could succeed
    /// either.
    pub(super) fn verify(&self, pids: &[u32]) -> Result<(), KillError> {
        let mut contradicted = false;
        for &pid in pids {
            match self.is_in(pid, self.hierarchy) {
                Ok(Some(false)) => contradicted |= self.is_settled(pid).unwrap_or_default(),
                // A hidden process is checked when it is signalled.
                Ok(Some(true) | None) | Err(_) => return Ok(()),
            }
        }
        if contradicted {
            return Err(KillError::Unverifiable {
                cgroup: self.relative.clone(),
            });
        }
        Ok(())
    }

    /// Cgroup v1 does not list processes of a foreign pid namespace, so a pod full of them looks empty. The cgroup2
    /// tree next to it lists them with the id 0.
    pub(super) fn verify_empty(&self) -> Result<(), KillError> {
        if let Some(unified) = open_if_exists(self.hierarchies.unified(&self.relative))? {
            self.listed(&unified)?;
        }
        Ok(())
    }

    /// Whether the cgroup that the process shows is reliable: it is alive and not exiting.
    fn is_settled(&self, pid: u32) -> Result<bool, CgroupError> {
        let stat = Stat::read(self.proc_root, pid)?;
        Ok(stat.is_some_and(|stat| stat.is_alive() && !stat.is_exiting()))
    }

    fn is_alive(&self, pid: u32) -> Result<bool, KillError> {
        match Stat::read(self.proc_root, pid) {
            Ok(Some(stat)) => Ok(stat.is_alive()),
            Ok(None) | Err(_) => process::can_be_opened_alive(pid),
        }
    }

    /// The processes that are still alive, for the report.
    pub(super) fn survivors(&self) -> Result<Vec<Survivor>, KillError> {
        let mut survivors = Vec::new();
        for pid in self.listed(&self.home)? {
            let stat = Stat::read(self.proc_root, pid).ok().flatten();
            if self.is_alive(pid)? {
                let (name, state) = stat.map_or((String::new(), '?'), |it| (it.name, it.state));
                survivors.push(Survivor { pid, name, state });
            }
        }
        Ok(survivors)
    }

    /// The processes that get SIGTERM, and the cgroups of the sandbox, which never gets it. SIGTERM goes to the
    /// first process of each container, or to every process if there are no containers. `sandbox` is its container
    /// id, if known.
    pub(super) fn first_processes(&self, sandbox: Option<&str>) -> Result<Targets, KillError> {
        let mut targets = Targets::default();
        let containers = match self.home.children() {
            Err(error) if error.is_gone() => Vec::new(),
            found => found?,
        };
        for name in containers {
            let Some(id) = container_of(&name) else {
                continue;
            };
            let Some(dir) = if_exists(self.home.child(&name))? else {
                continue;
            };
            let first = self.oldest(&self.listed(&dir)?)?;
            // The pause process keeps the network of the pod, which the other containers may need to shut down.
            let is_pause = first.as_ref().is_some_and(|(_, stat)| stat.name == "pause");
            if is_pause || sandbox == Some(&id) {
                targets.sandboxes.push(name);
            } else if let Some((pid, _)) = first {
                targets.pids.push(pid);
            }
        }
        // Groups without containers, or containers whose first process has ended: everybody gets the signal.
        if targets.pids.is_empty() {
            targets.pids = self.list_outside(&targets.sandboxes)?.whole()?;
        }
        Ok(targets)
    }

    fn list_outside(&self, sandboxes: &[OsString]) -> Result<ProcessList, KillError> {
        let mut list = self.list(&self.home)?;
        for name in sandboxes {
            let Some(dir) = if_exists(self.home.child(name))? else {
                continue;
            };
            let sandbox_pids = self.listed(&dir)?;
            list.pids
                .retain(|pid| sandbox_pids.binary_search(pid).is_err());
        }
        Ok(list)
    }

    /// The live process that started first; of those that started in the same clock tick the one with the lowest
    /// id.
    fn oldest(&self, pids: &[u32]) -> Result<Option<(u32, Stat)>, KillError> {
        let mut oldest: Option<(u32, Stat)> = None;
        for &pid in pids {
            if let Some(stat) = Stat::read(self.proc_root, pid)?.filter(Stat::is_alive)
                && oldest
                    .as_ref()
                    .is_none_or(|(_, other)| stat.started < other.started)
            {
                oldest = Some((pid, stat));
            }
        }
        Ok(oldest)
    }

    /// Waits for changes in the cgroup's processes.
    pub(super) fn changes(&self) -> Changes {
        let unified = self.hierarchies.unified(&self.relative);
        let unified = open_if_exists(unified).ok().flatten();
        Changes {
            events: unified.and_then(|dir| watch(&dir)),
            begun: Instant::now(),
        }
    }
}

/// Opens a directory of the cgroup; `None` if it does not exist.
fn open_if_exists(dir: Option<PathBuf>) -> Result<Option<GroupDir>, CgroupError> {
    dir.map_or(Ok(None), |dir| if_exists(GroupDir::open(&dir)))
}

/// `None` if the directory does not exist.
fn if_exists(opened: Result<GroupDir, CgroupError>) -> Result<Option<GroupDir>, CgroupError> {
    match opened {
        Err(error) if error.is_gone() => Ok(None),
        opened => opened.map(Some),
    }
}

/// All processes of a list if one of them is alive; none if all are dead. A list of only dead processes proves
/// nothing at first, because each may have forked before it died; it counts once the next read returns the same
/// list.
fn live<E>(
    list: impl Fn() -> Result<ProcessList, E>,
    any_alive: impl Fn(&mut ProcessList) -> bool,
) -> Result<ProcessList, E> {
    let mut seen = list()?;
    while !any_alive(&mut seen) {
        let again = list()?;
        // Two equal lists without a live process: nothing was forked between them.
        if again.pids == seen.pids && again.error.is_none() {
            return Ok(ProcessList::default());
        }
        seen = again;
    }
    Ok(seen)
}

/// The processes that get SIGTERM, and the cgroups that do not.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pub(super) pids: Vec<u32>,
    pub(super) sandboxes: Vec<OsString>,
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Says when to list the cgroup's processes again: when `cgroup.events` says that it became empty (cgroup2 tree
/// only), or after a pause that grows with the time waited so far. That is exact enough for the reported times, and
/// leaves the CPU to the exiting processes, which need it to free their memory.
pub(super) struct Changes {
    events: Option<AsyncFd<File>>,
    begun: Instant,
}

impl Changes {
    pub(super) async fn next(&mut self) {
        let waited = self.begun.elapsed();
        let Some(events) = &self.events else {
            // Without events the pauses grow with the wait, so that a long one costs little.
            return sleep((waited / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)).await;
        };
        // Only for processes that have exited while others stay, such as a sandbox's.
        let pause = (waited / 2).clamp(SHORTEST_PAUSE * 10, LONGEST_PAUSE);
        tokio::select! {
            () = sleep(pause) => {}
            ready = events.ready(Interest::PRIORITY) => {
                if let Ok(mut guard) = ready {
                    guard.clear_ready();
                }
            }
        }
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may lie about their descriptor; an owned File can't"
)]
fn watch(dir: &GroupDir) -> Option<AsyncFd<File>> {
    // The kernel's file can be watched; a plain file in a test cannot.
    let events = dir.to_read("cgroup.events").ok()?;
    AsyncFd::with_interest(events, Interest::PRIORITY).ok()
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::{ProcessList, live};

    fn seen(looks: &[&[u32]], alive: &[u32]) -> Vec<u32> {
        let looks = RefCell::new(looks.iter());
        let list = || {
            Ok::<_, Infallible>(ProcessList {
                pids: looks.borrow_mut().next().unwrap().to_vec(),
                error: None,
            })
        };
        let found = live(list, |list| list.pids.iter().any(|pid| alive.contains(pid)));
        found.unwrap_or_else(|never| match never {}).pids
    }

    #[test]
    fn dead_processes_are_the_last_only_if_no_other_follows() {
        assert!(seen(&[&[], &[]], &[]).is_empty());
        assert_eq!(seen(&[&[7, 8]], &[8]), [7, 8]);
        assert_eq!(seen(&[&[7], &[8], &[9]], &[9]), [9]);
        assert!(seen(&[&[7], &[], &[]], &[]).is_empty());
        assert!(seen(&[&[7], &[7]], &[]).is_empty());
    }
}
