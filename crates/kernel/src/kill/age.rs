//! Whether a pod's processes are alive, and how old they are.

use super::CgroupEvictor;
use super::process::{self, Stat};
use jiff::Timestamp;
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
            .min_by_key(|stat| stat.started)?;
        let age = oldest.age(process::uptime(&self.proc_root)?)?;
        self.clock.now().checked_sub(age).ok()
    }
}
