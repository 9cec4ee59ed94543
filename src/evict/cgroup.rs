//! A pod leaves by its cgroup: SIGTERM, the grace, then a kill that no process escapes.
//!
//! Linux could give back a dying process's memory sooner through `process_mrelease`; it is not used, because neither
//! rustix nor nix wraps that call and this workspace has no unsafe code of its own.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::cpu::Freed;
use super::freezer::{self, Frozen};
use super::group::{Group, write_switch};
use super::process::signal_if;
use super::{Departure, EvictError, GraceCut, Leave, Method, Victim};
use crate::cgroup::{Controller, Hierarchies};
use crate::clock::Clock;

/// Ends pods through their cgroups.
#[derive(Debug, Clone)]
pub struct CgroupEvictor {
    /// Where the cgroups are.
    pub hierarchies: Hierarchies,
    /// `/proc`, or a fixture.
    pub proc_root: PathBuf,
    /// The cgroups that may hold pods: a victim's must be strictly below one of them.
    pub pod_roots: Vec<PathBuf>,
    /// How long after the first SIGKILL to wait for the last process.
    pub kill_deadline: Duration,
    /// Dates the steps of a departure.
    pub clock: Clock,
}

/// Who asks a pod to stop when its grace begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Asks {
    /// evictd, by SIGTERM.
    Evictd,
    /// The kubelet, that has been told: two that ask are one too many.
    Kubelet,
}

impl Leave for CgroupEvictor {
    async fn leave(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<Departure, EvictError> {
        self.end(victim, grace, cut, Asks::Evictd).await
    }
}

impl CgroupEvictor {
    /// Ends the pod as [`Leave::leave`] says.
    pub(super) async fn end(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
        asks: Asks,
    ) -> Result<Departure, EvictError> {
        let group = Group::open(&self.hierarchies, &self.proc_root, &self.pod_roots, victim)?;
        let Some(group) = group else {
            return Ok(Departure {
                gone_at: Some(self.clock.now()),
                ..Departure::not_begun()
            });
        };
        let mut eviction = Eviction {
            clock: self.clock,
            group,
            seen: BTreeSet::new(),
            departure: Departure::not_begun(),
            freed: None,
        };
        let pids = eviction.look(&[])?;
        eviction.group.verify(&pids)?;
        if pids.is_empty() {
            eviction.group.verify_empty()?;
        }
        if !grace.is_zero() {
            let sandboxes = eviction.ask(victim.sandbox.as_deref(), asks)?;
            eviction.wait(&sandboxes, grace, cut).await?;
        }
        match timeout(self.kill_deadline, eviction.kill(cut)).await {
            Ok(killed) => killed?,
            Err(_) => eviction.departure.survivors = eviction.group.survivors()?,
        }
        Ok(eviction.finish())
    }
}

impl Departure {
    /// Of a pod for which nothing has been done.
    pub(crate) fn not_begun() -> Self {
        Self {
            first_signal_at: None,
            killed_at: None,
            gone_at: None,
            processes: 0,
            method: Method::AlreadyGone,
            survivors: Vec::new(),
        }
    }
}

/// One pod's departure under way.
struct Eviction<'a> {
    clock: Clock,
    group: Group<'a>,
    seen: BTreeSet<u32>,
    departure: Departure,
    freed: Option<Freed>,
}

impl Eviction<'_> {
    /// Looks who is in the pod now, sandboxes aside; nobody once all are dead.
    fn look(&mut self, sandboxes: &[PathBuf]) -> Result<Vec<u32>, EvictError> {
        let pids = self.group.living_outside(sandboxes)?;
        self.seen.extend(&pids);
        Ok(pids)
    }

    /// Sees to it that the pod is asked to stop; its sandboxes, which are not.
    fn ask(&mut self, sandbox: Option<&str>, asks: Asks) -> Result<Vec<PathBuf>, EvictError> {
        let targets = self.group.first_processes(sandbox)?;
        match asks {
            Asks::Evictd => {
                self.signal(Signal::TERM, &targets.pids)?;
                if self.departure.first_signal_at.is_some() {
                    self.departure.method = Method::Terminated;
                }
            }
            Asks::Kubelet if targets.pids.is_empty() => {}
            Asks::Kubelet => self.departure.method = Method::TornDown,
        }
        Ok(targets.sandboxes)
    }

    /// Waits until all but the sandboxes have left, the grace is over, or it is cut.
    async fn wait(
        &mut self,
        sandboxes: &[PathBuf],
        grace: Duration,
        cut: &GraceCut,
    ) -> Result<(), EvictError> {
        if self.departure.method == Method::AlreadyGone {
            return Ok(());
        }
        let left = async {
            let mut changes = self.group.changes();
            loop {
                if self.look(sandboxes)?.is_empty() {
                    return Ok(());
                }
                changes.next().await;
            }
        };
        tokio::select! {
            left = left => left,
            () = sleep(grace) => Ok(()),
            () = cut.wait() => Ok(()),
        }
    }

    /// Kills whoever is left, and whoever they fork meanwhile, until nobody is alive.
    async fn kill(&mut self, cut: &GraceCut) -> Result<(), EvictError> {
        let mut changes = self.group.changes();
        let mut struck = Vec::new();
        loop {
            let pids = self.look(&[])?;
            if pids.is_empty() {
                return Ok(());
            }
            if pids.iter().any(|pid| struck.binary_search(pid).is_err()) {
                struck = self.strike(pids).await?;
                cut.note_killed();
                self.free_cpu(&struck);
                yield_now().await;
            } else {
                // Forgets who is gone, so that a recycled id counts as new.
                struck = pids;
                changes.next().await;
            }
        }
    }

    /// Kills all processes of the pod once, by the surest way there is; returns whom it hit.
    async fn strike(&mut self, pids: Vec<u32>) -> Result<Vec<u32>, EvictError> {
        let now = self.clock.now();
        self.departure.killed_at.get_or_insert(now);
        let freezer = self.freezer()?;
        if let Some(unified) = self.group.unified_with_same_processes(&pids)?
            && write_kill(&unified)
        {
            self.departure.first_signal_at.get_or_insert(now);
            self.departure.method = Method::CgroupKill;
            if let Some(freezer) = freezer {
                freezer::thaw(&freezer);
            }
            return Ok(pids);
        }
        if let Some(freezer) = freezer {
            match Frozen::freeze(&freezer).await {
                Ok(_held) => {
                    let pids = self.look(&[])?;
                    self.signal(Signal::KILL, &pids)?;
                    self.departure.method = Method::FrozenKill;
                    return Ok(pids);
                }
                Err(error) => tracing::warn!(path = %freezer.display(), %error, "cannot freeze"),
            }
        }
        self.signal(Signal::KILL, &pids)?;
        self.departure.method = Method::RepeatedKill;
        Ok(pids)
    }

    /// Lets those who were killed end as fast as the machine can, whatever CPU time the pod was allowed. Where that is not
    /// to be had they end all the same.
    fn free_cpu(&mut self, struck: &[u32]) {
        let Group {
            hierarchies,
            relative,
            ..
        } = &self.group;
        let dir = hierarchies.dir(Controller::Cpu, relative);
        let Some(dir) = dir.filter(|_| self.freed.is_none()) else {
            return;
        };
        let within = self.group.checked_pids(&dir).unwrap_or_default();
        if !within.is_empty() && within.iter().all(|pid| struck.contains(pid)) {
            self.freed = Some(Freed::below(&dir));
        }
    }

    /// The pod's directory in cgroup v1's freezer hierarchy, if there is one.
    fn freezer(&self) -> Result<Option<PathBuf>, EvictError> {
        let dir = self
            .group
            .hierarchies
            .dir(Controller::Freezer, &self.group.relative)
            .filter(|dir| dir.join("freezer.state").is_file());
        if let Some(dir) = &dir {
            self.group.checked_pids(dir)?;
        }
        Ok(dir)
    }

    fn signal(&mut self, signal: Signal, pids: &[u32]) -> Result<(), EvictError> {
        for &pid in pids {
            let now = self.clock.now();
            if signal_if(pid, signal, || self.group.holds(pid))? {
                self.departure.first_signal_at.get_or_insert(now);
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Departure {
        self.departure.processes = self.seen.len();
        if self.departure.survivors.is_empty() {
            self.departure.gone_at = Some(self.clock.now());
        }
        self.departure
    }
}

/// Kills everything in a group of the cgroup2 tree; false where the kernel has no such file (before 5.14) or refuses.
fn write_kill(unified: &Path) -> bool {
    let file = unified.join("cgroup.kill");
    match write_switch(&file, "1") {
        Ok(()) => true,
        Err(error) => {
            tracing::debug!(path = %file.display(), %error, "no cgroup.kill, killing one by one");
            false
        }
    }
}
