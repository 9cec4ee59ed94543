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

use super::cpu::LiftedLimits;
use super::freezer::{self, Frozen};
use super::group::{Group, ProcessList, Targets};
use super::process::signal_if;
use super::retry::Retry;
use super::spare::SpareFiles;
use super::{GraceCut, KillError, Method, Retryable, Termination, Victim};
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
pub enum SigtermBy {
    /// evictd, with SIGTERM.
    Evictd,
    /// The kubelet, which knows that the pod must stop. A second SIGTERM could make a program give up its shutdown.
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
        sigterm_by: SigtermBy,
    ) -> Result<Termination, KillError> {
        // Refilled at the first and the last moment, in case descriptors have become free meanwhile.
        self.spare.refill();
        let termination = self.terminate(victim, grace, cut, sigterm_by).await;
        self.spare.refill();
        termination
    }

    async fn terminate(
        &self,
        victim: &Victim,
        grace: Duration,
        cut: &GraceCut,
        sigterm_by: SigtermBy,
    ) -> Result<Termination, KillError> {
        let Some(group) = self.open(victim).await? else {
            return Ok(Termination {
                gone_at: Some(self.clock.now()),
                ..Termination::not_begun()
            });
        };
        let mut in_progress = InProgress {
            clock: self.clock,
            group,
            retry: Retry::new(&self.spare),
            seen: BTreeSet::new(),
            begun: false,
            verified: false,
            counted: false,
            sigkilled: BTreeSet::new(),
            termination: Termination::not_begun(),
            lifted_limits: None,
        };
        if !grace.is_zero() {
            tokio::select! {
                left = in_progress.wait_for_exit(victim.sandbox.as_deref(), sigterm_by) => left?,
                () = sleep(grace) => {}
                () = cut.wait() => {}
            }
        }
        // The deadline is for the kill alone; the grace period may be longer.
        match timeout(self.kill_deadline, in_progress.kill(cut)).await {
            Ok(killed) => killed?,
            Err(_) => in_progress.note_survivors()?,
        }
        Ok(in_progress.finish())
    }

    async fn open(&self, victim: &Victim) -> Result<Option<Group<'_>>, KillError> {
        let mut retry = Retry::new(&self.spare);
        let opened = async {
            loop {
                let (hierarchies, proc_root) = (&self.hierarchies, &self.proc_root);
                match Group::open(hierarchies, proc_root, &self.pod_roots, victim) {
                    Err(error) => retry.retry_after(error).await?,
                    opened => return opened,
                }
            }
        };
        let opened = timeout(self.kill_deadline, opened).await;
        opened.unwrap_or_else(|_| retry.take_error(&victim.cgroup).map_or(Ok(None), Err))
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
struct InProgress<'a> {
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
    lifted_limits: Option<LiftedLimits>,
}

/// The result of one round of killing.
enum Round {
    /// SIGKILL was sent to some process.
    Killed,
    /// All remaining processes were sent SIGKILL before.
    Waiting,
    /// No process is left.
    Gone,
}

impl InProgress<'_> {
    /// The processes now in the pod, without its sandboxes; none if all are dead.
    fn live_processes(&mut self, sandboxes: &[OsString]) -> Result<ProcessList, KillError> {
        let list = self.group.live_processes(sandboxes)?;
        self.seen.extend(&list.pids);
        Ok(list)
    }

    /// Makes sure that the pod is asked to stop, and waits until all processes except the sandboxes have exited.
    async fn wait_for_exit(
        &mut self,
        sandbox: Option<&str>,
        sigterm_by: SigtermBy,
    ) -> Result<(), KillError> {
        let Targets {
            mut pids,
            sandboxes,
        } = loop {
            match self.targets(sandbox) {
                Ok(targets) => break targets,
                Err(error) => self.retry.retry_after(error).await?,
            }
        };
        if pids.is_empty() {
            return Ok(());
        }
        // Many programs take a second SIGTERM for an order to exit at once.
        if sigterm_by == SigtermBy::Kubelet {
            self.termination.method = Method::TornDown;
            pids.clear();
        }
        let mut changes = self.group.changes();
        loop {
            pids = self.send_sigterm(pids);
            let none_signalled = self.termination.method == Method::AlreadyGone && pids.is_empty();
            match self.live_processes(&sandboxes) {
                Ok(list) if none_signalled || (list.pids.is_empty() && list.error.is_none()) => {
                    return Ok(());
                }
                Ok(_) if pids.is_empty() => {
                    self.retry.reset();
                    changes.next().await;
                }
                Ok(_) => changes.next().await,
                Err(error) => self.retry.retry_after(error).await?,
            }
        }
    }

    fn targets(&mut self, sandbox: Option<&str>) -> Result<Targets, KillError> {
        let list = self.live_processes(&[])?;
        self.verify(&list)?;
        self.group.first_processes(sandbox)
    }

    /// Sends SIGTERM to each of these; returns those for which that failed and has to be retried. No process gets
    /// it twice, because some programs give up their graceful shutdown at the second SIGTERM.
    fn send_sigterm(&mut self, mut pids: Vec<u32>) -> Vec<u32> {
        pids.retain(|pid| match self.signal(Signal::TERM, *pid) {
            Ok(sent) => {
                if sent {
                    self.termination.method = Method::Terminated;
                }
                false
            }
            Err(error) => error.retryable() == Retryable::Yes,
        });
        pids
    }

    /// Checks, before the first signal, that the listed processes really are in this cgroup.
    fn verify(&mut self, list: &ProcessList) -> Result<(), KillError> {
        if list.pids.is_empty() {
            return self.group.verify_empty();
        }
        if !self.verified {
            self.group.verify(&list.pids)?;
            self.verified = true;
        }
        Ok(())
    }

    /// Kills the remaining processes and those that they fork meanwhile, until none is alive. Failures are retried.
    async fn kill(&mut self, cut: &GraceCut) -> Result<(), KillError> {
        let mut changes = self.group.changes();
        loop {
            match self.round().await {
                Ok(Round::Gone) => return Ok(()),
                Ok(Round::Killed) => {
                    cut.note_killed();
                    self.retry.reset();
                    // The next round follows at once, but the tasks of other pods have their turn before it.
                    yield_now().await;
                }
                Ok(Round::Waiting) => {
                    cut.note_killed();
                    self.retry.reset();
                    changes.next().await;
                }
                Err(error) => self.retry.retry_after(error).await?,
            }
        }
    }

    async fn round(&mut self) -> Result<Round, KillError> {
        let killed_before_listing = !self.begun && self.kill_before_listing();
        self.begun = true;
        let list = match self.live_processes(&[]) {
            Err(error) if error.retryable() != Retryable::No && self.is_surely_empty() => {
                tracing::debug!(%error, "it is empty anyway");
                return Ok(Round::Gone);
            }
            list => list?,
        };
        if list.error.is_some() && self.is_surely_empty() {
            return Ok(Round::Gone);
        }
        if list.pids.is_empty() && list.error.is_none() {
            return self.confirm_empty(&list);
        }
        let ProcessList { pids, error } = list;
        if killed_before_listing {
            self.sigkilled.extend(&pids);
            self.lift_cpu_limits();
        }
        if pids.iter().any(|pid| !self.sigkilled.contains(pid)) {
            self.kill_once(pids).await?;
            self.lift_cpu_limits();
            return error.map_or(Ok(Round::Killed), Err);
        }
        // Forgets processes that have exited, so that a reused id counts as new.
        self.sigkilled = pids.into_iter().collect();
        error.map_or(Ok(Round::Waiting), Err)
    }

    /// The lists show no live process. The kernel's own count decides whether the cgroup is really empty.
    fn confirm_empty(&mut self, list: &ProcessList) -> Result<Round, KillError> {
        if self.seen.is_empty() {
            self.verify(list)?;
        }
        // Old kernels count zombies too, but also list them.
        if let Some(dir) = self.group.cgroup2_dir()
            && dir.is_populated() == Some(true)
            && self.group.listed(dir)?.is_empty()
        {
            write_kill(dir);
            return Err(KillError::Unlisted {
                cgroup: self.group.relative.clone(),
            });
        }
        Ok(Round::Gone)
    }

    /// Whether the kernel's count says that no process is left, for when the lists cannot be read.
    fn is_surely_empty(&self) -> bool {
        match self.group.cgroup2_dir() {
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
    fn kill_before_listing(&mut self) -> bool {
        let Some(dir) = self.group.cgroup2_dir() else {
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
        let (frozen, started) = Frozen::freeze(freezer).await;
        if let Err(error) = started {
            tracing::warn!(cgroup = %self.group.relative.display(), %error, "cannot freeze");
            drop(frozen);
            return self.kill_each(&pids, Method::RepeatedKill);
        }
        // What was forked before the freeze took hold is only in the new list.
        if let Ok(list) = self.live_processes(&[]) {
            pids.extend(list.pids);
            pids.sort_unstable();
            pids.dedup();
        }
        let killed = self.kill_each(&pids, Method::FrozenKill);
        frozen.thaw().await;
        killed
    }

    /// Whether all were killed with one write to `cgroup.kill`.
    fn kill_whole(&self, pids: &[u32]) -> Result<bool, KillError> {
        if let Some(dir) = self.group.cgroup2_dir() {
            return Ok(write_kill(dir));
        }
        match self.group.cgroup2_dir_with_same_processes(pids) {
            Ok(unified) => Ok(unified.is_some_and(|unified| write_kill(&unified))),
            Err(error) if error.retryable() == Retryable::No => Err(error),
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
                // The first error is kept, and the other processes are killed all the same.
                Err(error) => outcome = outcome.and(Err(error)),
            }
        }
        outcome
    }

    /// Lifts the pod's CPU limits, so that killed processes can exit and free their memory quickly. If the limits
    /// cannot be lifted, the processes still exit, only more slowly.
    fn lift_cpu_limits(&mut self) {
        if self.lifted_limits.is_some() {
            return;
        }
        let Some(dir) = self.group.dir(Controller::Cpu).ok().flatten() else {
            return;
        };
        let within = self.group.listed(&dir).unwrap_or_default();
        // A limit is lifted only for processes that must die; a throttled one could not handle its SIGKILL.
        if !within.is_empty() && within.iter().all(|pid| self.sigkilled.contains(pid)) {
            self.lifted_limits = Some(LiftedLimits::below(dir));
        }
    }

    /// The pod's directory in cgroup v1's freezer hierarchy; `None` if there is none or it cannot be opened now.
    fn freezer(&self) -> Result<Option<GroupDir>, KillError> {
        let dir = self
            .group
            .dir(Controller::Freezer)
            .ok()
            .flatten()
            .filter(|dir| dir.has("freezer.state"));
        match dir.as_ref().map(|dir| self.group.listed(dir)) {
            Some(Err(error)) if error.retryable() == Retryable::No => Err(error),
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
    fn note_survivors(&mut self) -> Result<(), KillError> {
        if self.begun && self.is_surely_empty() {
            return Ok(());
        }
        if let Some(error) = self.retry.take_error(&self.group.relative) {
            return Err(error);
        }
        let survivors = self.group.survivors();
        self.termination.survivors = survivors.or_else(|_| self.group.survivors())?;
        Ok(())
    }

    fn finish(mut self) -> Termination {
        // With hidden processes the lists may have been empty although something was killed.
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
