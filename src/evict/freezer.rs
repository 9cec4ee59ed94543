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
        if !stands_still(&state).await {
            tracing::debug!(cgroup = %dir.display(), "not frozen after 100 ms; killing anyway");
        }
        Ok(frozen)
    }
}

/// Waits until a group that was told to freeze has done so; false at the deadline.
async fn stands_still(state: &Path) -> bool {
    let freezing = async {
        while fs::read_to_string(state).is_ok_and(|state| state.trim_end() == "FREEZING") {
            sleep(LOOK_AGAIN).await;
        }
    };
    timeout(FREEZE_DEADLINE, freezing).await.is_ok()
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

#[cfg(test)]
mod tests {
    use std::fs::create_dir_all;

    use super::*;

    fn tree() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (pod, below) = (dir.path().join("pod"), dir.path().join("pod/app/deep"));
        create_dir_all(&below).unwrap();
        fs::write(pod.join("freezer.state"), "THAWED").unwrap();
        fs::write(below.join("freezer.state"), "FROZEN").unwrap();
        (dir, pod, below)
    }

    fn state(dir: &Path) -> String {
        fs::read_to_string(dir.join("freezer.state")).unwrap()
    }

    #[tokio::test]
    async fn a_group_is_frozen_until_dropped_and_then_thawed_with_all_below() {
        let (_dir, pod, below) = tree();
        let frozen = Frozen::freeze(&pod).await.unwrap();
        assert_eq!(state(&pod), "FROZEN");
        drop(frozen);
        assert_eq!(state(&pod), "THAWED");
        assert_eq!(state(&below), "THAWED");
    }

    #[tokio::test]
    async fn a_group_that_cannot_be_frozen_is_an_error() {
        let (_dir, pod, _) = tree();
        fs::remove_file(pod.join("freezer.state")).unwrap();
        assert!(Frozen::freeze(&pod).await.is_err());
        assert!(!pod.join("freezer.state").exists());
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_does_not_stand_still_is_waited_for_100_ms() {
        let (_dir, pod, _) = tree();
        let state = pod.join("freezer.state");
        fs::write(&state, "FREEZING\n").unwrap();
        let start = tokio::time::Instant::now();
        assert!(!stands_still(&state).await);
        assert_eq!(start.elapsed(), FREEZE_DEADLINE);
        let (still, ()) = tokio::join!(stands_still(&state), async {
            sleep(LOOK_AGAIN * 7).await;
            fs::write(&state, "FROZEN\n").unwrap();
        });
        assert!(still);
    }
}
