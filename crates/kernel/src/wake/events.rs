//! `memory.events` of the pods' cgroup: it reached `memory.high` or `memory.max`, or its OOM killer ran.
//!
//! Only the cgroup's own events wake the main loop. A pod that reaches its own limit does not concern the node, and
//! may do so for ever.

use super::{Wakeup, WokenBy, listener::Listener};
use crate::kernel_file::{Buffer, KernelFile};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, RawFd},
    path::{Path, PathBuf},
};
use tokio::io::{Interest, unix::AsyncFd};

/// The files, the better one first. Kernels before 5.2 have only the second, which also counts the events of the
/// pods' cgroups.
const FILES: [&str; 2] = ["memory.events.local", "memory.events"];

/// The events of one cgroup, and the task that listens to them.
#[derive(Debug)]
pub(super) struct EventsFile {
    group: PathBuf,
    listener: Listener,
}

impl EventsFile {
    pub(super) fn new(group: PathBuf) -> Self {
        Self {
            group,
            listener: Listener::default(),
        }
    }

    /// Starts listening if no task does. Without a memory controller in the cgroup2 tree there are no events.
    pub(super) fn refresh(&mut self, wakeup: &Wakeup) {
        let Some(inode) = self.listener.new_inode(&self.group) else {
            return;
        };
        let files = FILES.map(|name| self.group.join(name));
        let Some(file) = files.into_iter().find(|file| file.is_file()) else {
            return;
        };
        match watch(&file) {
            Ok(events) => {
                tracing::info!("woken by {}", file.display());
                self.listener
                    .start(inode, listen_to(events, file, wakeup.clone()));
            }
            Err(error) => tracing::warn!("not woken by {}: {error}", file.display()),
        }
    }
}

#[derive(Debug)]
struct Instance(Inotify);

impl AsRawFd for Instance {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may lie about their descriptor; an owned one can't"
)]
fn watch(file: &Path) -> io::Result<AsyncFd<Instance>> {
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
    inotify.add_watch(file, AddWatchFlags::IN_MODIFY)?;
    AsyncFd::with_interest(Instance(inotify), Interest::READABLE)
}

async fn listen_to(events: AsyncFd<Instance>, file: PathBuf, wakeup: Wakeup) {
    let mut file = KernelFile::new(file);
    let mut buffer = Box::new([0; size_of::<Buffer>()]);
    let mut counted = move || file.read(&mut buffer, "counts of events", count).ok();
    let mut before = counted();
    // The driver of the runtime returns an error only when it shuts down.
    while let Ok(mut ready) = events.readable().await {
        ready.clear_ready();
        while events.get_ref().0.read_events().is_ok() {}
        let now = counted();
        if now != before {
            wakeup.notify(WokenBy::MemoryEvents);
        }
        before = now;
    }
}

/// The sum of how often the cgroup reached `memory.high`, reached `memory.max`, and ran out of memory.
fn count(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for line in text.lines() {
        let (name, value) = line.split_once(' ')?;
        if matches!(name, "high" | "max" | "oom") {
            sum = sum.saturating_add(value.parse().ok()?);
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, time::Duration};
    use tokio::time::timeout;

    fn text(low: u64, max: u64) -> String {
        format!("low {low}\nhigh 1\nmax {max}\noom 0\noom_kill 0\noom_group_kill 0\n")
    }

    #[test]
    fn only_the_events_high_max_and_oom_wake() {
        assert_eq!(count(&text(7, 2)), Some(3));
        assert_eq!(count(""), Some(0));
        assert_eq!(count("max x"), None);
        assert_eq!(count("max"), None);
    }

    #[tokio::test]
    async fn a_group_at_its_limit_notifies_and_a_group_that_was_created_again_does_too() {
        let directory = tempfile::tempdir().unwrap();
        let group = directory.path().join("kubepods");
        let wakeup = Wakeup::default();
        let mut events = EventsFile::new(group.clone());
        events.refresh(&wakeup);
        assert!(events.listener.inode().is_none());
        let file = group.join(FILES[0]);
        for _ in 0..2 {
            fs::create_dir(&group).unwrap();
            fs::write(&file, text(0, 0)).unwrap();
            events.refresh(&wakeup);
            assert!(events.listener.inode().is_some());
            tokio::task::yield_now().await;
            let patience = Duration::from_millis(50);
            // Written in place, as the kernel does it.
            fs::write(&file, text(5, 0)).unwrap();
            assert!(
                timeout(patience, wakeup.notified()).await.is_err(),
                "low is no trouble"
            );
            fs::write(&file, text(5, 1)).unwrap();
            let heard = timeout(Duration::from_secs(10), wakeup.notified()).await;
            assert_eq!(heard, Ok(WokenBy::MemoryEvents));
            // Truncating and writing are two changes.
            let _ = timeout(patience, wakeup.notified()).await;
            fs::remove_dir_all(&group).unwrap();
            events.refresh(&wakeup);
            assert!(events.listener.inode().is_none());
        }
    }
}
