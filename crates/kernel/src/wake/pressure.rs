//! Triggers on pressure stall information: the kernel notifies when tasks were stalled for a tenth of a window.

use super::{Wakeup, WokenBy, listener::Listener};
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
};
use tokio::io::{Interest, unix::AsyncFd};

/// A tenth of one second, in microseconds.
const QUICK: &str = "some 100000 1000000\n";
/// A tenth of two seconds; newer kernels allow this window to every user.
const SLOW: &str = "some 200000 2000000\n";

/// One pressure file, and the task that listens to it.
#[derive(Debug)]
pub(super) struct PressureTrigger {
    file: PathBuf,
    by: WokenBy,
    listener: Listener,
    /// The way of listening that was last logged.
    logged: Option<TriggerMode>,
}

/// How pressure is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TriggerMode {
    Quick,
    Slow,
    Refused,
}

impl PressureTrigger {
    pub(super) fn new(file: PathBuf, by: WokenBy) -> Self {
        Self {
            file,
            by,
            listener: Listener::default(),
            logged: None,
        }
    }

    /// Starts listening if no task does. A cgroup that does not exist yet is not reported; a kernel that refuses
    /// is, once.
    pub(super) fn refresh(&mut self, wakeup: &Wakeup) {
        let Some(inode) = self.listener.new_inode(&self.file) else {
            return;
        };
        match self.listen() {
            Ok((file, mode)) => {
                self.listener
                    .start(inode, listen_to(file, wakeup.clone(), self.by));
                self.log(mode, None);
            }
            Err(error) => self.log(TriggerMode::Refused, Some(&error)),
        }
    }

    fn listen(&self) -> io::Result<(AsyncFd<File>, TriggerMode)> {
        for (trigger, mode) in [(QUICK, TriggerMode::Quick), (SLOW, TriggerMode::Slow)] {
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
                .open(&self.file);
            let mut file = opened?;
            match file.write_all(trigger.as_bytes()) {
                Ok(()) => return Ok((watch(file)?, mode)),
                Err(error) if mode == TriggerMode::Slow => return Err(error),
                // Without CAP_SYS_RESOURCE.
                Err(_) => {}
            }
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    fn log(&mut self, mode: TriggerMode, error: Option<&io::Error>) {
        if self.logged.replace(mode) == Some(mode) {
            return;
        }
        let file = self.file.display();
        match (mode, error) {
            (TriggerMode::Quick, _) => tracing::info!("woken by pressure within 1 s ({file})"),
            (TriggerMode::Slow, _) => tracing::warn!(
                "woken by pressure within 2 s only ({file}): a shorter window needs CAP_SYS_RESOURCE"
            ),
            (TriggerMode::Refused, error) => tracing::warn!(
                "not woken by pressure, only the sampling interval decides when to sample ({file}): {}; older kernels \
                 need CAP_SYS_RESOURCE for it",
                error.map_or_else(String::new, ToString::to_string)
            ),
        }
    }
}

async fn listen_to(file: AsyncFd<File>, wakeup: Wakeup, by: WokenBy) {
    // The driver of the runtime returns an error only when it shuts down.
    while let Ok(mut ready) = file.ready(Interest::PRIORITY).await {
        ready.clear_ready();
        wakeup.notify(by);
    }
}

#[expect(
    deprecated,
    reason = "its successor is unsafe, for types that may lie about their descriptor; an owned File can't"
)]
fn watch(file: File) -> io::Result<AsyncFd<File>> {
    AsyncFd::with_interest(file, Interest::PRIORITY)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_kernel_takes_a_trigger_or_says_why_not() {
        let wakeup = Wakeup::default();
        let mut trigger = PressureTrigger::new("/proc/pressure/memory".into(), WokenBy::IoPressure);
        trigger.refresh(&wakeup);
        let there = trigger.file.exists();
        assert_eq!(trigger.logged.is_some(), there);
        let takes = matches!(trigger.logged, Some(TriggerMode::Quick | TriggerMode::Slow));
        assert_eq!(trigger.listener.inode().is_some(), takes);
        let inode = trigger.listener.inode();
        trigger.refresh(&wakeup);
        assert_eq!(trigger.listener.inode(), inode);
    }

    #[tokio::test]
    async fn a_file_without_pressure_triggers_is_not_watched_and_a_missing_one_is_no_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("memory.pressure");
        let wakeup = Wakeup::default();
        let mut trigger = PressureTrigger::new(file.clone(), WokenBy::MemoryPressure);
        trigger.refresh(&wakeup);
        assert_eq!(
            (trigger.logged, trigger.listener.inode().is_some()),
            (None, false)
        );
        std::fs::write(&file, "").unwrap();
        // The runtime cannot wait for a plain file.
        trigger.refresh(&wakeup);
        assert_eq!(trigger.logged, Some(TriggerMode::Refused));
        assert!(trigger.listener.inode().is_none());
    }
}
