//! cgroup v1's freezer: stops all processes of a pod while they are killed, so that none can escape by forking.

use std::io;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};

use crate::cgroup::{CgroupError, GroupDir};

/// How long to wait until a cgroup is frozen. A process in uninterruptible sleep may delay that for minutes.
const FREEZE_DEADLINE: Duration = Duration::from_millis(100);
const CHECK_PERIOD: Duration = Duration::from_millis(1);
/// The pause after the first failed attempt to thaw a cgroup, and the longest pause.
const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// How often thawing is tried by code that cannot wait.
const TRIES: u32 = 5;

const STATE: &str = "freezer.state";

/// A cgroup that is being frozen. It is thawed with all cgroups below it even if the owner of this value is
/// cancelled: a frozen process does not act on SIGKILL, and keeps its memory.
pub(super) struct Frozen(Option<GroupDir>);

impl Frozen {
    /// Freezes the cgroup and waits until all its processes are frozen, but at most 100 ms: a cgroup still freezing
    /// then is as frozen as the kernel allows. The second part says whether the freezing could be started.
    pub(super) async fn freeze(dir: GroupDir) -> (Self, io::Result<()>) {
        let written = dir.write(STATE, b"FROZEN");
        let frozen = Self(Some(dir));
        if let (Ok(()), Some(dir)) = (&written, &frozen.0)
            && !becomes_frozen(dir).await
        {
            tracing::debug!(cgroup = %dir.path().display(), "not frozen after 100 ms; killing anyway");
        }
        (frozen, written)
    }

    /// Returns once the cgroup and all below are seen thawed, or do not exist any more.
    pub(super) async fn thaw(mut self) {
        if let Some(dir) = &self.0 {
            retry_thaw(dir).await;
        }
        self.0 = None;
    }
}

/// Waits until a cgroup is frozen; false at the deadline.
async fn becomes_frozen(dir: &GroupDir) -> bool {
    let freezing = async {
        while dir
            .read(STATE)
            .is_ok_and(|state| state.starts_with(b"FREEZING"))
        {
            sleep(CHECK_PERIOD).await;
        }
    };
    timeout(FREEZE_DEADLINE, freezing).await.is_ok()
}

impl Drop for Frozen {
    fn drop(&mut self) {
        let Some(dir) = self.0.take() else {
            return;
        };
        // The task of the kill was dropped, and a pod must never stay frozen for that.
        if (0..TRIES).any(|_| thaw(&dir).is_ok()) {
            return;
        }
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(async move { retry_thaw(&dir).await });
        } else {
            tracing::error!(cgroup = %dir.path().display(), "left frozen");
        }
    }
}

async fn retry_thaw(dir: &GroupDir) {
    let mut pause = FIRST_PAUSE;
    while let Err(error) = thaw(dir) {
        if pause == FIRST_PAUSE {
            tracing::warn!(%error, "cannot thaw {}; trying again", dir.path().display());
        }
        sleep(pause).await;
        pause = (pause + pause / 4).min(LONGEST_PAUSE);
    }
}

/// Thaws a cgroup and every cgroup below it; another program may have frozen those before. Succeeds if all are seen
/// thawed.
pub(super) fn thaw(dir: &GroupDir) -> Result<(), CgroupError> {
    match dir.walk(thaw_one) {
        Err(error) if error.is_gone() => Ok(()),
        thawed => thawed,
    }
}

fn thaw_one(dir: &GroupDir) -> Result<(), CgroupError> {
    let written = dir.write(STATE, b"THAWED");
    // The state decides, not the write: another program may have thawed it or frozen it again.
    let state = dir.read(STATE)?;
    if state.trim_ascii_end() == b"THAWED" {
        return Ok(());
    }
    let source = written.err().unwrap_or_else(|| {
        io::Error::other(format!(
            "it stays {}",
            String::from_utf8_lossy(&state).trim_end()
        ))
    });
    Err(CgroupError::Write {
        path: dir.path().join(STATE),
        source,
    })
}

#[cfg(test)]
mod tests {
    use std::fs::{self, create_dir_all};
    use std::path::{Path, PathBuf};

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

    fn opened(dir: &Path) -> GroupDir {
        GroupDir::open(dir).unwrap()
    }

    #[tokio::test]
    async fn a_group_is_frozen_until_dropped_and_then_thawed_with_all_below() {
        let (_dir, pod, below) = tree();
        let (frozen, written) = Frozen::freeze(opened(&pod)).await;
        written.unwrap();
        assert_eq!(state(&pod), "FROZEN");
        drop(frozen);
        assert_eq!(state(&pod), "THAWED");
        assert_eq!(state(&below), "THAWED");
    }

    #[tokio::test]
    async fn a_group_that_cannot_be_frozen_is_an_error() {
        let (_dir, pod, _) = tree();
        fs::remove_file(pod.join("freezer.state")).unwrap();
        let (frozen, written) = Frozen::freeze(opened(&pod)).await;
        assert!(written.is_err());
        frozen.thaw().await;
        assert!(!pod.join("freezer.state").exists());
    }

    /// Replaces the file by something that cannot be written, as a failing kernel file, until `mend` makes it a
    /// file again.
    fn refuses_to_thaw(pod: &Path) {
        fs::remove_file(pod.join("freezer.state")).unwrap();
        fs::create_dir(pod.join("freezer.state")).unwrap();
    }

    fn mend(pod: &Path) {
        fs::remove_dir(pod.join("freezer.state")).unwrap();
        fs::write(pod.join("freezer.state"), "FROZEN").unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_is_thawed_until_it_is_thawed() {
        let (_dir, pod, _) = tree();
        let (frozen, _) = Frozen::freeze(opened(&pod)).await;
        refuses_to_thaw(&pod);
        let thawing = frozen.thaw();
        tokio::pin!(thawing);
        assert!(timeout(Duration::from_mins(1), &mut thawing).await.is_err());
        mend(&pod);
        thawing.await;
        assert_eq!(state(&pod), "THAWED");
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_whose_killer_is_gone_is_thawed_all_the_same() {
        let (_dir, pod, _) = tree();
        let (frozen, _) = Frozen::freeze(opened(&pod)).await;
        refuses_to_thaw(&pod);
        drop(frozen);
        sleep(Duration::from_mins(1)).await;
        mend(&pod);
        sleep(LONGEST_PAUSE * 2).await;
        assert_eq!(state(&pod), "THAWED");
    }

    #[tokio::test(start_paused = true)]
    async fn a_group_that_does_not_stand_still_is_waited_for_100_ms() {
        let (_dir, pod, _) = tree();
        let state = pod.join("freezer.state");
        fs::write(&state, "FREEZING\n").unwrap();
        let dir = opened(&pod);
        let start = tokio::time::Instant::now();
        assert!(!becomes_frozen(&dir).await);
        assert_eq!(start.elapsed(), FREEZE_DEADLINE);
        let (frozen, ()) = tokio::join!(becomes_frozen(&dir), async {
            sleep(CHECK_PERIOD * 7).await;
            fs::write(&state, "FROZEN\n").unwrap();
        });
        assert!(frozen);
    }
}
