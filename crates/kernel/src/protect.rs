//! Keeping the daemon itself alive when memory is short.

use nix::sys::mman::{MlockAllFlags, mlockall};
use std::fs;

/// `MCL_ONFAULT`: pages are locked when they are first touched, not populated ahead.
const ON_FAULT: MlockAllFlags = MlockAllFlags::from_bits_retain(4);

const OOM_SCORE: &str = "/proc/self/oom_score_adj";
/// What a kubelet gives to pods of its node's most critical class: nothing of theirs is killed before all else is.
const OUT_OF_REACH: i32 = -997;

/// Locks this process into memory and takes it out of the kernel's OOM killer's reach. What is refused is a warning that
/// names the missing capability; the daemon works without, only less safely.
pub fn protect_self() {
    let all = MlockAllFlags::MCL_CURRENT | MlockAllFlags::MCL_FUTURE;
    if mlockall(all | ON_FAULT).or_else(|_| mlockall(all)).is_err() {
        tracing::warn!(
            "this process may be swapped out: mlockall is refused; it needs CAP_IPC_LOCK or a higher LimitMEMLOCK"
        );
    }
    let score = fs::read_to_string(OOM_SCORE).ok();
    let score: Option<i32> = score.and_then(|score| score.trim().parse().ok());
    if score.is_some_and(|score| score <= OUT_OF_REACH) {
        return;
    }
    if let Err(error) = fs::write(OOM_SCORE, "-999") {
        tracing::warn!(
            "the kernel's OOM killer may choose this process: oom_score_adj cannot be lowered ({error}); it needs CAP_SYS_RESOURCE, or OOMScoreAdjust=-999 in its unit"
        );
    }
}

/// Whether this process may signal processes of other users (`CAP_KILL`); true where nobody knows.
pub fn may_end_others() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    effective_capabilities(&status).is_none_or(|effective| effective & KILL != 0)
}

/// `CAP_KILL` in the kernel's set of capabilities.
const KILL: u64 = 1 << 5;

fn effective_capabilities(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(line.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_from_the_kernels_words() {
        let status = "Name:\tevictd\nCapPrm:\t0\nCapEff:\t0000000001004022\nCapBnd:\tff\n";
        assert_eq!(effective_capabilities(status), Some(0x100_4022));
        assert_ne!(0x100_4022 & KILL, 0);
        assert_eq!(effective_capabilities("CapEff:\tmany\n"), None);
    }
}
