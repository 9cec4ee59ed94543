//! Whether a pod's processes are alive, and how old they are.

use super::{CgroupEvictor, process::Stat};
use jiff::{SignedDuration, Timestamp};
use procfs::{FromRead, Uptime};
use std::path::Path;

impl CgroupEvictor {
    /// Whether any process in this cgroup or below is alive; `None` if that cannot be determined. Zombies do not
    /// count, though some kernels list them.
    pub fn runs(&self, cgroup: &Path) -> Option<bool> {
        let processes = match self.hierarchies.procs(cgroup) {
            Ok(processes) => processes,
            Err(error) => return error.is_gone().then_some(false),
        };
        let lives = |pid| match Stat::read(&self.proc_root, pid) {
            Ok(stat) => stat.is_some_and(|stat| stat.is_alive()),
            Err(_) => true,
        };
        Some(processes.into_iter().any(lives))
    }

    /// When the oldest process in this cgroup or below was started; `None` if there is none, or if that cannot be
    /// determined.
    pub fn oldest_process(&self, cgroup: &Path) -> Option<Timestamp> {
        let processes = self.hierarchies.procs(cgroup).ok()?;
        let stats = processes
            .into_iter()
            .filter_map(|pid| Stat::read(&self.proc_root, pid).ok()?);
        let oldest = stats
            .filter(Stat::is_alive)
            .map(|stat| stat.started)
            .min()?;
        let age = age(uptime(&self.proc_root)?, oldest)?;
        self.clock.now().checked_sub(age).ok()
    }
}

/// The seconds since the boot.
pub(super) fn uptime(proc_root: &Path) -> Option<f64> {
    let uptime = Uptime::from_file(proc_root.join("uptime")).ok()?;
    Some(uptime.uptime)
}

/// The age in whole seconds of a process that was started at this tick of the clock.
pub(super) fn seconds(uptime: f64, started: u64) -> Option<u64> {
    u64::try_from(age(uptime, started)?.as_secs()).ok()
}

fn age(uptime: f64, started: u64) -> Option<SignedDuration> {
    #[allow(clippy::cast_precision_loss, reason = "clock ticks since boot")]
    let started = started as f64 / rustix::param::clock_ticks_per_second() as f64;
    SignedDuration::try_from_secs_f64(uptime - started).ok()
}
