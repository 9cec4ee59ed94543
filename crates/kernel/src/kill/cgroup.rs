//! Terminates a pod by its cgroup: SIGTERM, the grace period, then a kill that no process escapes.
//!
//! Linux could free a dying process's memory sooner through `process_mrelease`. It is not used because neither
//! rustix nor nix wraps that call and this workspace forbids unsafe code.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::Signal;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::cpu::Freed;
use super::freezer::{self, Frozen};
use super::group::{Group, Look, Targets};
use super::process::signal_if;
use super::retry::Retry;
use super::spare::SpareFiles;
use super::{GraceCut, KillError, Method, Passes, Termination, Victim};
use crate::cgroup::{Controller, GroupDir, Hierarchies};
use crate::clock::Clock;

/// Terminates pods through their cgroups.
#[derive(Debug, Clone)]
pub struct CgroupEvictor {
    /// The machine's cgroup hierarchies.
    pub hierarchies: Hierarchies,
    /// `/proc`; another directory in tests.
    pub proc_root: PathBuf,
    /// The cgroups that may contain pods: a victim's cgroup must be strictly below one of them.
    pub pod_roots: Vec<PathBuf>,
    /// How long to wait for the last process, counted from the first SIGKILL.
    pub kill_deadline: Duration,
    /// The source of the timestamps in reports.
    pub clock: Clock,
    /// Reserve of file descriptors for when no file can be opened any more.
    pub spare: Arc<SpareFiles>,
}

/// Which program asks the pod's processes to stop when the grace period begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asks {
    /// evictd, with SIGTERM.
    Evictd,
    /// The kubelet, which has been told to. A second SIGTERM could make a program give up its shutdown.
    Kubelet,
}

impl CgroupEvictor {
    /// Terminates the pod: sends SIGTERM, waits for `grace` or until `cut` ends it, and then sends SIGKILL. With a
    /// grace period of zero it sends SIGKILL at once. Returns when the last process has exited or the deadline is
    /// over. Until that deadline, errors that may pass are retried and not returned.
    pub async fn end(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
        asks: Asks,
    ) -> Result<Termination, KillError> {
        self.spare.refill();
        let termination = self.terminate(victim, grace, cut, asks).await;
        self.spare.refill();
        termination
    }

    async fn terminate(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
        asks: Asks,
    ) -> Result<Termination, KillError> {
        let Some(group) = self.open(victim).await? else {
            return Ok(Termination {
                gone_at: Some(self.clock.now()),
                ..Termination::not_begun()
            });
        };
        let mut eviction = Eviction {
            clock: self.clock,
            group,
            retry: Retry::new(&self.spare),
            seen: BTreeSet::new(),
            begun: false,
            verified: false,
            counted: false,
            sigkilled: BTreeSet::new(),
            termination: Termination::not_begun(),
            freed: None,
        };
        if !grace.is_zero() {
            tokio::select! {
                left = eviction.leave_by_itself(victim.sandbox.as_deref(), asks) => left?,
                () = sleep(grace) => {}
                () = cut.wait() => {}
            }
        }
        match timeout(self.kill_deadline, eviction.kill(cut)).await {
            Ok(killed) => killed?,
            Err(_) => eviction.outlived()?,
        }
        Ok(eviction.finish())
    }

    async fn open(&self, victim: &Victim) -> Result<Option<Group<'_>>, KillError> {
        let mut retry = Retry::new(&self.spare);
        let opened = async {
            loop {
                let (hierarchies, proc_root) = (&self.hierarchies, &self.proc_root);
                match Group::open(hierarchies, proc_root, &self.pod_roots, victim) {
                    Err(error) => retry.after(error).await?,
                    opened => return opened,
                }
            }
        };
        let opened = timeout(self.kill_deadline, opened).await;
        opened.unwrap_or_else(|_| retry.given_up(&victim.cgroup).map_or(Ok(None), Err))
    }
}

impl Termination {
    /// The report of a termination that has not begun.
    pub fn not_begun() -> Self {
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

/// A termination in progress.
struct Eviction<'a> {
    clock: Clock,
    group: Group<'a>,
    retry: Retry<'a>,
    seen: BTreeSet<u32>,
    /// Whether SIGKILL was sent.
    begun: bool,
    /// Whether `/proc` has confirmed that the processes are in the cgroup that lists them.
    verified: bool,
    /// Whether the kernel's count of processes in the cgroup was ever above zero.
    counted: bool,
    /// Which of the processes last seen were sent SIGKILL.
    sigkilled: BTreeSet<u32>,
    termination: Termination,
    freed: Option<Freed>,
}

/// The result of one round of killing.
enum Pass {
    /// SIGKILL was sent to some process.
    Killed,
    /// All remaining processes were sent SIGKILL before.
    Waiting,
    /// No process is left.
    Gone,
}

impl Eviction<'_> {
    /// The processes now in the pod, without its sandboxes; none if all are dead.
    fn look(&mut self, sandboxes: &[OsString]) -> Result<Look, KillError> {
        let look = self.group.look(sandboxes)?;
        self.seen.extend(&look.pids);
        Ok(look)
    }

    /// Makes sure that the pod is asked to stop, and waits until all processes except the sandboxes have exited.
    async fn leave_by_itself(
        &mut self,
        sandbox: Option<&str>,
        asks: Asks,
    ) -> Result<(), KillError> {
        let Targets {
            mut pids,
            sandboxes,
        } = loop {
            match self.targets(sandbox) {
                Ok(targets) => break targets,
                Err(error) => self.retry.after(error).await?,
            }
        };
        if pids.is_empty() {
            return Ok(());
        }
        if asks == Asks::Kubelet {
            self.termination.method = Method::TornDown;
            pids.clear();
        }
        let mut changes = self.group.changes();
        loop {
            pids = self.ask(pids);
            let nobody_asked = self.termination.method == Method::AlreadyGone && pids.is_empty();
            match self.look(&sandboxes) {
                Ok(look) if nobody_asked || (look.pids.is_empty() && look.trouble.is_none()) => {
                    return Ok(());
                }
                Ok(_) if pids.is_empty() => {
                    self.retry.over();
                    changes.next().await;
                }
                Ok(_) => changes.next().await,
                Err(error) => self.retry.after(error).await?,
            }
        }
    }

    fn targets(&mut self, sandbox: Option<&str>) -> Result<Targets, KillError> {
        let look = self.look(&[])?;
        self.verify(&look)?;
        self.group.first_processes(sandbox)
    }

    /// Sends SIGTERM to each of these; returns those for which that failed and has to be retried. No process gets
    /// it twice, because some programs give up their graceful shutdown at the second SIGTERM.
    fn ask(&mut self, mut pids: Vec<u32>) -> Vec<u32> {
        pids.retain(|pid| match self.signal(Signal::TERM, *pid) {
            Ok(sent) => {
                if sent {
                    self.termination.method = Method::Terminated;
                }
                false
            }
            Err(error) => error.passes() == Passes::Perhaps,
        });
        pids
    }

    /// Checks, before the first signal, that the listed processes really are in this cgroup.
    fn verify(&mut self, look: &Look) -> Result<(), KillError> {
        if look.pids.is_empty() {
            return self.group.verify_empty();
        }
        if !self.verified {
            self.group.verify(&look.pids)?;
            self.verified = true;
        }
        Ok(())
    }

    /// Kills the remaining processes and those that they fork meanwhile, until none is alive. Failures are retried.
    async fn kill(&mut self, cut: &GraceCut) -> Result<(), KillError> {
        let mut changes = self.group.changes();
        loop {
            match self.pass().await {
                Ok(Pass::Gone) => return Ok(()),
                Ok(Pass::Killed) => {
                    cut.note_killed();
                    self.retry.over();
                    yield_now().await;
                }
                Ok(Pass::Waiting) => {
                    cut.note_killed();
                    self.retry.over();
                    changes.next().await;
                }
                Err(error) => self.retry.after(error).await?,
            }
        }
    }

    async fn pass(&mut self) -> Result<Pass, KillError> {
        let killed_unlisted = !self.begun && self.kill_unlisted();
        self.begun = true;
        let look = match self.look(&[]) {
            Err(error) if error.passes() != Passes::Never && self.is_surely_empty() => {
                tracing::debug!(%error, "it is empty anyway");
                return Ok(Pass::Gone);
            }
            look => look?,
        };
        if look.trouble.is_some() && self.is_surely_empty() {
            return Ok(Pass::Gone);
        }
        if look.pids.is_empty() && look.trouble.is_none() {
            return self.emptied(&look);
        }
        let Look { pids, trouble } = look;
        if killed_unlisted {
            self.sigkilled.extend(&pids);
            self.free_cpu();
        }
        if pids.iter().any(|pid| !self.sigkilled.contains(pid)) {
            self.kill_once(pids).await?;
            self.free_cpu();
            return trouble.map_or(Ok(Pass::Killed), Err);
        }
        // Forgets processes that have exited, so that a reused id counts as new.
        self.sigkilled = pids.into_iter().collect();
        trouble.map_or(Ok(Pass::Waiting), Err)
    }

    /// The lists show no live process. The kernel's own count decides whether the cgroup is really empty.
    fn emptied(&mut self, look: &Look) -> Result<Pass, KillError> {
        if self.seen.is_empty() {
            self.verify(look)?;
        }
        // Old kernels count zombies too, but also list them.
        if let Some(dir) = self.group.in_the_one_tree()
            && dir.is_populated() == Some(true)
            && self.group.listed(dir)?.is_empty()
        {
            write_kill(dir);
            return Err(KillError::Unlisted {
                cgroup: self.group.relative.clone(),
            });
        }
        Ok(Pass::Gone)
    }

    /// Whether the kernel's count says that no process is left, for when the lists cannot be read.
    fn is_surely_empty(&self) -> bool {
        match self.group.in_the_one_tree() {
            Some(dir) => dir.is_populated() == Some(false),
            None => self.counted && self.count() == Some(0),
        }
    }

    fn count(&self) -> Option<u64> {
        let dir = self.group.dir(Controller::Pids).ok().flatten()?;
        dir.pids_current()
    }

    /// On cgroup v2, kills the whole cgroup before its processes are listed, so that no read error can delay the
    /// kill.
    fn kill_unlisted(&mut self) -> bool {
        let Some(dir) = self.group.in_the_one_tree() else {
            return false;
        };
        if dir.is_populated() == Some(false) || !write_kill(dir) {
            return false;
        }
        self.verified = true;
        self.note_killed_whole();
        true
    }

    fn note_killed_whole(&mut self) {
        let now = self.clock.now();
        self.termination.killed_at.get_or_insert(now);
        self.termination.first_signal_at.get_or_insert(now);
        self.termination.method = Method::CgroupKill;
    }

    /// Kills all processes of the pod once, by the most reliable method available. Processes for which this failed
    /// are not in `sigkilled`.
    async fn kill_once(&mut self, mut pids: Vec<u32>) -> Result<(), KillError> {
        if !self.verified {
            self.group.verify(&pids)?;
            self.verified = true;
        }
        self.counted |= self.count() > Some(0);
        let freezer = self.freezer()?;
        if self.kill_whole(&pids)? {
            self.note_killed_whole();
            // The cgroup may have been frozen by another program.
            freezer.as_ref().map_or(Ok(()), freezer::thaw)?;
            self.sigkilled = pids.into_iter().collect();
            return Ok(());
        }
        let now = self.clock.now();
        self.termination.killed_at.get_or_insert(now);
        let Some(freezer) = freezer else {
            return self.kill_each(&pids, Method::RepeatedKill);
        };
        let (frozen, told) = Frozen::freeze(freezer).await;
        if let Err(error) = told {
            tracing::warn!(cgroup = %self.group.relative.display(), %error, "cannot freeze");
            drop(frozen);
            return self.kill_each(&pids, Method::RepeatedKill);
        }
        if let Ok(look) = self.look(&[]) {
            pids.extend(look.pids);
            pids.sort_unstable();
            pids.dedup();
        }
        let killed = self.kill_each(&pids, Method::FrozenKill);
        frozen.thaw().await;
        killed
    }

    /// Whether all were killed with one write to `cgroup.kill`.
    fn kill_whole(&self, pids: &[u32]) -> Result<bool, KillError> {
        if let Some(dir) = self.group.in_the_one_tree() {
            return Ok(write_kill(dir));
        }
        match self.group.unified_with_same_processes(pids) {
            Ok(unified) => Ok(unified.is_some_and(|unified| write_kill(&unified))),
            Err(error) if error.passes() == Passes::Never => Err(error),
            Err(error) => {
                tracing::debug!(%error, "killing one by one");
                Ok(false)
            }
        }
    }

    /// Sends SIGKILL to each of these; continues after a failure and returns the first one.
    fn kill_each(&mut self, pids: &[u32], method: Method) -> Result<(), KillError> {
        self.termination.method = method;
        self.sigkilled.clear();
        let mut outcome = Ok(());
        for &pid in pids {
            match self.signal(Signal::KILL, pid) {
                Ok(_) => {
                    self.sigkilled.insert(pid);
                }
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Lifts the pod's CPU limits, so that killed processes can exit and free their memory quickly. If the limits
    /// cannot be lifted, the processes still exit, only more slowly.
    fn free_cpu(&mut self) {
        if self.freed.is_some() {
            return;
        }
        let Some(dir) = self.group.dir(Controller::Cpu).ok().flatten() else {
            return;
        };
        let within = self.group.listed(&dir).unwrap_or_default();
        if !within.is_empty() && within.iter().all(|pid| self.sigkilled.contains(pid)) {
            self.freed = Some(Freed::below(dir));
        }
    }

    /// The pod's directory in cgroup v1's freezer hierarchy; `None` if there is none or it cannot be opened now.
    fn freezer(&self) -> Result<Option<GroupDir>, KillError> {
        let dir = self.group.dir(Controller::Freezer).ok().flatten();
        let dir = dir.filter(|dir| dir.has("freezer.state"));
        match dir.as_ref().map(|dir| self.group.listed(dir)) {
            Some(Err(error)) if error.passes() == Passes::Never => Err(error),
            Some(Ok(_) | Err(_)) | None => Ok(dir),
        }
    }

    fn signal(&mut self, signal: Signal, pid: u32) -> Result<bool, KillError> {
        let now = self.clock.now();
        let sent = signal_if(pid, signal, || self.group.holds(pid))?;
        if sent {
            self.termination.first_signal_at.get_or_insert(now);
        }
        Ok(sent)
    }

    /// After the deadline: notes the survivors, or returns why they are not known.
    fn outlived(&mut self) -> Result<(), KillError> {
        if self.begun && self.is_surely_empty() {
            return Ok(());
        }
        if let Some(error) = self.retry.given_up(&self.group.relative) {
            return Err(error);
        }
        let survivors = self.group.survivors();
        self.termination.survivors = survivors.or_else(|_| self.group.survivors())?;
        Ok(())
    }

    fn finish(mut self) -> Termination {
        let killed_unseen = usize::from(self.termination.killed_at.is_some());
        self.termination.processes = self.seen.len().max(killed_unseen);
        if self.termination.survivors.is_empty() {
            self.termination.gone_at = Some(self.clock.now());
        }
        self.termination
    }
}

/// Kills all processes in a cgroup of the cgroup2 tree with one write. False if the kernel has no such file (before
/// 5.14) or refuses.
fn write_kill(unified: &GroupDir) -> bool {
    match unified.write("cgroup.kill", b"1") {
        Ok(()) => true,
        Err(error) => {
            let path = unified.path().display();
            tracing::debug!(%path, %error, "no cgroup.kill, killing one by one");
            false
        }
    }
}
