//! Keeping the daemon itself alive when memory is short.

use nix::sys::{
    mman::{MlockAllFlags, mlockall},
    prctl,
};
use procfs::{FromRead, process::Status};
use std::{fs, path::Path};

/// `MCL_ONFAULT`: pages are locked when they are first used, not all at once in advance.
const ON_FAULT: MlockAllFlags = MlockAllFlags::from_bits_retain(4);

const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// The score that a kubelet gives to critical pods: the OOM killer takes them after almost all others.
const CRITICAL_POD_SCORE: i32 = -997;

/// Locks this process into memory, keeps it small and lowers its OOM score; to be called before threads are started.
/// If locking or the score is refused, logs a warning that names the missing capability; the daemon works without it,
/// but less safely.
pub fn protect_self() {
    // The first write to a thread's stack could otherwise take a huge page (2 MiB) where one of 4 KiB is needed.
    // A kernel without huge pages may refuse; then there are none to avoid.
    let _ = prctl::set_thp_disable(true);
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
    if mlockall(all | ON_FAULT).or_else(|_| mlockall(all)).is_err() {
        tracing::warn!(
            "this process may be swapped out: mlockall is refused; it needs CAP_IPC_LOCK or a higher LimitMEMLOCK"
        );
    }
    let score: Option<i32> = fs::read_to_string(OOM_SCORE)
        .ok()
        .and_then(|score| score.trim().parse().ok());
    if score.is_some_and(|score| score <= CRITICAL_POD_SCORE) {
        return;
    }
    if let Err(error) = fs::write(OOM_SCORE, "-999") {
        tracing::warn!(
            "the kernel's OOM killer may choose this process: oom_score_adj cannot be lowered ({error}); it needs CAP_SYS_RESOURCE, or OOMScoreAdjust=-999 in its unit"
        );
    }
}

/// Whether this process may signal processes of other users (`CAP_KILL`); true if that is not known.
pub fn may_signal_others() -> bool {
    may_kill("/proc/self/status")
}

fn may_kill(status: impl AsRef<Path>) -> bool {
    Status::from_file(status).map_or(true, |status| status.capeff & KILL != 0)
}

/// `CAP_KILL` in the kernel's set of capabilities.
const KILL: u64 = 1 << 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_kernels_words() {
        let own = fs::read_to_string("/proc/self/status").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("status");
        for (capabilities, may) in [
            ("0000000001004022", true),
            ("0000000001004002", false),
            ("many", true),
        ] {
            let lines = own.lines().map(|line| match line.split_once(':') {
                Some(("CapEff", _)) => format!("CapEff:\t{capabilities}\n"),
                _ => format!("{line}\n"),
            });
            fs::write(&file, lines.collect::<String>()).unwrap();
            assert_eq!(may_kill(&file), may, "{capabilities}");
        }
        assert!(may_kill(directory.path().join("missing")));
    }
}
