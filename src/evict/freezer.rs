//! cgroup v1's freezer: holds a pod still while its processes are killed, so that none can fork away.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::group::write_switch;
use crate::cgroup::subdirectories;

/// How long to wait for a group to stand still. A process in uninterruptible sleep may not do so for minutes.
const FREEZE_DEADLINE: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// A group that was told to freeze; thawed, with all below it, when dropped.
pub(super) struct Frozen {
    dir: PathBuf,
}

impl Frozen {
    /// Tells the group to freeze and waits until all its processes stand still, but no longer than 100 ms: a group
    /// that is still freezing then is as good as the kernel allows.
    pub(super) async fn freeze(dir: &Path) -> io::Result<Self> {
        let frozen = Self {
            dir: dir.to_owned(),
        };
        let state = dir.join("freezer.state");
        write_switch(&state, "FROZEN")?;
        let standstill = async {
            while fs::read_to_string(&state).is_ok_and(|state| state.trim_end() == "FREEZING") {
                sleep(LOOK_AGAIN).await;
            }
        };
        if timeout(FREEZE_DEADLINE, standstill).await.is_err() {
            tracing::debug!(cgroup = %dir.display(), "not frozen after 100 ms; killing anyway");
        }
        Ok(frozen)
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        thaw(&self.dir);
    }
}

/// Thaws a group and every group below it: a frozen process does not act on SIGKILL. A group below may have been
/// frozen by someone else before.
pub(super) fn thaw(dir: &Path) {
    let state = dir.join("freezer.state");
    match write_switch(&state, "THAWED") {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            tracing::warn!(path = %state.display(), %error, "cannot thaw");
        }
        _ => {}
    }
    for child in subdirectories(dir).unwrap_or_default() {
        thaw(&dir.join(child));
    }
}
