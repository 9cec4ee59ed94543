//! The victim's cgroup: whether it may be touched at all, who is in it, and when that changes.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::{Instant, sleep};

use super::process::{self, Stat};
use super::{EvictError, Refusal, Survivor, Victim};
use crate::cgroup::{
    CgroupError, Controller, Hierarchies, OwnCgroups, normal, pod_uid, procs_below,
};

/// The cgroup of a victim that passed every check of [`Group::open`].
pub(super) struct Group<'a> {
    pub(super) hierarchies: &'a Hierarchies,
    pub(super) proc_root: &'a Path,
    /// Relative to the root of its hierarchy.
    pub(super) relative: PathBuf,
    /// The hierarchy whose list of processes counts: a v1 controller's or (None) the cgroup2 tree.
    hierarchy: Option<Controller>,
    home: PathBuf,
    /// Device and inode of `home`: a group that was removed and made anew is another one.
    identity: (u64, u64),
}

impl<'a> Group<'a> {
    /// Refuses what must never be ended. None if the cgroup does not exist (any more).
    pub(super) fn open(
        hierarchies: &'a Hierarchies,
        proc_root: &'a Path,
        pod_roots: &[PathBuf],
        victim: &Victim,
    ) -> Result<Option<Self>, EvictError> {
        let refused = |why| EvictError::Refused {
            cgroup: victim.cgroup.clone(),
            why,
        };
        let relative = normal(&victim.cgroup).ok_or_else(|| refused(Refusal::OutsidePodCgroups))?;
        let below = |root: &PathBuf| {
            normal(root).is_some_and(|root| relative != root && relative.starts_with(root))
        };
        if !pod_roots.iter().any(below) {
            return Err(refused(Refusal::OutsidePodCgroups));
        }
        if OwnCgroups::read(hierarchies, proc_root)?.are_within(&relative) {
            return Err(refused(Refusal::HoldsEvictd));
        }
        if let Some(found) = pod_uid(&relative).filter(|found| *found != victim.uid) {
            return Err(refused(Refusal::OtherPod { found }));
        }
        let (hierarchy, home) = match hierarchies.home_hierarchy(&relative) {
            Err(error) if error.is_gone() => return Ok(None),
            found => found?,
        };
        let Some(identity) = identity(&home)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            hierarchies,
            proc_root,
            relative,
            hierarchy,
            home,
            identity,
        }))
    }

    /// The ids of all processes that the group and those below it list, zombies included on older kernels.
    fn pids(&self) -> Result<Vec<u32>, EvictError> {
        if identity(&self.home)? != Some(self.identity) {
            return Ok(Vec::new());
        }
        self.checked_pids(&self.home)
    }

    /// The ids listed at and below `dir`, a directory of this group in any hierarchy; none where it does not exist.
    pub(super) fn checked_pids(&self, dir: &Path) -> Result<Vec<u32>, EvictError> {
        let pids = match procs_below(dir) {
            Err(error) if error.is_gone() => Vec::new(),
            listed => listed?,
        };
        let refused = |why| EvictError::Refused {
            cgroup: self.relative.clone(),
            why,
        };
        if pids.contains(&0) {
            return Err(EvictError::ForeignPidNamespace {
                cgroup: self.relative.clone(),
            });
        }
        if pids.contains(&1) {
            return Err(refused(Refusal::HoldsInit));
        }
        if pids.contains(&std::process::id()) {
            return Err(refused(Refusal::HoldsEvictd));
        }
        Ok(pids)
    }

    /// Whether the process is in this group by its own account.
    pub(super) fn holds(&self, pid: u32) -> Result<bool, CgroupError> {
        self.is_in(pid, self.hierarchy)
    }

    fn is_in(&self, pid: u32, hierarchy: Option<Controller>) -> Result<bool, CgroupError> {
        process::is_member(
            self.hierarchies,
            self.proc_root,
            pid,
            hierarchy,
            &self.relative,
        )
    }

    /// The directory of this group in the cgroup2 tree, if every process of the group is in it and nobody else.
    pub(super) fn unified_with_same_processes(
        &self,
        pids: &[u32],
    ) -> Result<Option<PathBuf>, EvictError> {
        let Some(unified) = self.hierarchies.unified(&self.relative) else {
            return Ok(None);
        };
        if self.hierarchy.is_none() {
            return Ok(Some(unified));
        }
        let here: BTreeSet<_> = pids.iter().copied().collect();
        let there: BTreeSet<_> = self.checked_pids(&unified)?.into_iter().collect();
        // What is in one list only was born or died between the two looks, or is really elsewhere.
        for &pid in here.symmetric_difference(&there) {
            let in_both = self.holds(pid)? && self.is_in(pid, None)?;
            if !in_both && self.is_settled(pid)? {
                return Ok(None);
            }
        }
        Ok(Some(unified))
    }

    /// The listed processes outside the given groups; empty once none of them is alive.
    pub(super) fn living_outside(&self, sandboxes: &[PathBuf]) -> Result<Vec<u32>, EvictError> {
        living(|| self.pids_outside(sandboxes), |pids| self.any_alive(pids))
    }

    fn any_alive(&self, pids: &[u32]) -> Result<bool, EvictError> {
        for &pid in pids {
            if self.is_alive(pid)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Refuses a cgroup whose processes say that they are elsewhere: no check could pass later.
    pub(super) fn verify(&self, pids: &[u32]) -> Result<(), EvictError> {
        let mut contradicted = false;
        for &pid in pids {
            if self.holds(pid)? {
                return Ok(());
            }
            contradicted |= self.is_settled(pid)?;
        }
        if contradicted {
            return Err(EvictError::Unverifiable {
                cgroup: self.relative.clone(),
            });
        }
        Ok(())
    }

    /// Cgroup v1 leaves processes of a foreign pid namespace out of its lists, so that a pod full of them looks empty;
    /// the cgroup2 tree beside it lists them as 0.
    pub(super) fn verify_empty(&self) -> Result<(), EvictError> {
        if let Some(unified) = self.hierarchies.unified(&self.relative) {
            self.checked_pids(&unified)?;
        }
        Ok(())
    }

    /// Whether what the process says of its cgroup can be relied on: it is alive and not ending.
    fn is_settled(&self, pid: u32) -> Result<bool, CgroupError> {
        let stat = Stat::read(self.proc_root, pid)?;
        Ok(stat.is_some_and(|stat| stat.is_alive() && !stat.is_exiting()))
    }

    fn is_alive(&self, pid: u32) -> Result<bool, CgroupError> {
        Ok(Stat::read(self.proc_root, pid)?.is_some_and(|stat| stat.is_alive()))
    }

    /// The processes that are still alive, for the report.
    pub(super) fn survivors(&self) -> Result<Vec<Survivor>, EvictError> {
        let mut survivors = Vec::new();
        for pid in self.pids()? {
            if let Some(stat) = Stat::read(self.proc_root, pid)?.filter(Stat::is_alive) {
                survivors.push(Survivor {
                    pid,
                    name: stat.name,
                    state: stat.state,
                });
            }
        }
        Ok(survivors)
    }

    /// The processes that get SIGTERM, and the groups of the sandbox, which never does: the first process of each
    /// container, or every process where there are no containers. `sandbox` is its container id, where it is known.
    pub(super) fn first_processes(&self, sandbox: Option<&str>) -> Result<Targets, EvictError> {
        let mut targets = Targets::default();
        let containers = match self.hierarchies.children(&self.relative) {
            Err(error) if error.is_gone() => Vec::new(),
            found => found?,
        };
        for container in containers {
            let Some(name) = container.relative.file_name() else {
                continue;
            };
            let dir = self.home.join(name);
            let first = self.oldest(&self.checked_pids(&dir)?)?;
            let is_pause = first.as_ref().is_some_and(|(_, stat)| stat.name == "pause");
            if is_pause || sandbox == Some(&container.id) {
                targets.sandboxes.push(dir);
            } else if let Some((pid, _)) = first {
                targets.pids.push(pid);
            }
        }
        if targets.pids.is_empty() {
            targets.pids = self.pids_outside(&targets.sandboxes)?;
        }
        Ok(targets)
    }

    fn pids_outside(&self, sandboxes: &[PathBuf]) -> Result<Vec<u32>, EvictError> {
        let mut pids = self.pids()?;
        for dir in sandboxes {
            let spared = self.checked_pids(dir)?;
            pids.retain(|pid| spared.binary_search(pid).is_err());
        }
        Ok(pids)
    }

    /// The living process that started first, the lowest id among those of the same tick.
    fn oldest(&self, pids: &[u32]) -> Result<Option<(u32, Stat)>, EvictError> {
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

    /// Waits for the group's processes to change.
    pub(super) fn changes(&self) -> Changes {
        let events = self.hierarchies.unified(&self.relative);
        Changes {
            events: events.and_then(|dir| watch(&dir.join("cgroup.events"))),
            begun: Instant::now(),
        }
    }
}

/// The processes of a list that has at least one living; empty once none is alive. A list of only dead processes
/// proves nothing, for each may have forked before it died, unless the next look finds the very same.
fn living<E>(
    look: impl Fn() -> Result<Vec<u32>, E>,
    any_alive: impl Fn(&[u32]) -> Result<bool, E>,
) -> Result<Vec<u32>, E> {
    let mut pids = look()?;
    while !any_alive(&pids)? {
        let again = look()?;
        if again == pids {
            return Ok(Vec::new());
        }
        pids = again;
    }
    Ok(pids)
}

/// Who gets SIGTERM and who is spared it.
#[derive(Debug, Default)]
pub(super) struct Targets {
    pub(super) pids: Vec<u32>,
    pub(super) sandboxes: Vec<PathBuf>,
}

const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Tells when it is worth looking at a group again: when the kernel says that it became empty (`cgroup.events`, in the
/// cgroup2 tree), or after an eighth of the time so far: soon enough to count by, and who ends has the processor.
pub(super) struct Changes {
    events: Option<AsyncFd<File>>,
    begun: Instant,
}

impl Changes {
    pub(super) async fn next(&mut self) {
        let pause = (self.begun.elapsed() / 8).clamp(SHORTEST_PAUSE, LONGEST_PAUSE);
        let Some(events) = &self.events else {
            return sleep(pause).await;
        };
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

/// Writes to one of the kernel's files. Never makes one: what isn't there can't be switched.
pub(super) fn write_switch(file: &Path, value: &str) -> io::Result<()> {
    fs::OpenOptions::new()
        .write(true)
        .open(file)?
        .write_all(value.as_bytes())
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may lie about their descriptor; an owned File can't"
)]
fn watch(events: &Path) -> Option<AsyncFd<File>> {
    // A fixture's plain file can't be watched; the kernel's can.
    AsyncFd::with_interest(File::open(events).ok()?, Interest::PRIORITY).ok()
}

fn identity(dir: &Path) -> Result<Option<(u64, u64)>, CgroupError> {
    match fs::metadata(dir) {
        Ok(metadata) => Ok(Some((metadata.dev(), metadata.ino()))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(CgroupError::Read {
            path: dir.to_owned(),
            source,
        }),
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::convert::Infallible;

    use super::living;

    fn seen(looks: &[&[u32]], alive: &[u32]) -> Vec<u32> {
        let looks = RefCell::new(looks.iter());
        let look = || Ok::<_, Infallible>(looks.borrow_mut().next().unwrap().to_vec());
        living(look, |pids| Ok(pids.iter().any(|pid| alive.contains(pid)))).unwrap()
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
