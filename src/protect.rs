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
pub(crate) fn protect_self() {
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
