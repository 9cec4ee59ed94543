//! Triggers on pressure stall information: the kernel notifies when tasks were stalled for a tenth of a window.

use super::{Bell, WokenBy, listener::Listener};
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
    listening: Listener,
    /// The way of listening that was last logged.
    told: Option<Manner>,
}

/// How pressure is listened to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    Quick,
    Slow,
    Not,
}

impl PressureTrigger {
    pub(super) fn new(file: PathBuf, by: WokenBy) -> Self {
        Self {
            file,
            by,
            listening: Listener::default(),
            told: None,
        }
    }

    /// Starts listening if no task does. A cgroup that does not exist yet is not reported; a kernel that refuses
    /// is, once.
    pub(super) fn tend(&mut self, bell: &Bell) {
        let Some(inode) = self.listening.unheard(&self.file) else {
            return;
        };
        match self.listen() {
            Ok((file, manner)) => {
                self.listening
                    .begin(inode, hear(file, bell.clone(), self.by));
                self.tell(manner, None);
            }
            Err(error) => self.tell(Manner::Not, Some(&error)),
        }
    }

    fn listen(&self) -> io::Result<(AsyncFd<File>, Manner)> {
        for (trigger, manner) in [(QUICK, Manner::Quick), (SLOW, Manner::Slow)] {
            let opened = OpenOptions::new()
                .read(true)
                .write(true)
                .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
                .open(&self.file);
            let mut file = opened?;
            match file.write_all(trigger.as_bytes()) {
                Ok(()) => return Ok((watch(file)?, manner)),
                Err(error) if manner == Manner::Slow => return Err(error),
                // Without CAP_SYS_RESOURCE.
                Err(_) => {}
            }
        }
        Err(io::ErrorKind::Unsupported.into())
    }

    fn tell(&mut self, manner: Manner, error: Option<&io::Error>) {
        if self.told.replace(manner) == Some(manner) {
            return;
        }
        let file = self.file.display();
        match (manner, error) {
            (Manner::Quick, _) => tracing::info!("woken by pressure within 1 s ({file})"),
            (Manner::Slow, _) => tracing::warn!(
                "woken by pressure within 2 s only ({file}): a shorter window needs CAP_SYS_RESOURCE"
            ),
            (Manner::Not, error) => tracing::warn!(
                "not woken by pressure, only the sampling interval decides when to sample ({file}): {}; older kernels \
                 need CAP_SYS_RESOURCE for it",
                error.map_or_else(String::new, ToString::to_string)
            ),
        }
    }
}

async fn hear(file: AsyncFd<File>, bell: Bell, by: WokenBy) {
    // The driver of the runtime returns an error only when it shuts down.
    while let Ok(mut ready) = file.ready(Interest::PRIORITY).await {
        ready.clear_ready();
        bell.ring(by);
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
        let bell = Bell::default();
        let mut trigger = PressureTrigger::new("/proc/pressure/memory".into(), WokenBy::IoPressure);
        trigger.tend(&bell);
        let there = trigger.file.exists();
        assert_eq!(trigger.told.is_some(), there);
        let takes = matches!(trigger.told, Some(Manner::Quick | Manner::Slow));
        assert_eq!(trigger.listening.inode().is_some(), takes);
        let inode = trigger.listening.inode();
        trigger.tend(&bell);
        assert_eq!(trigger.listening.inode(), inode);
    }

    #[tokio::test]
    async fn what_is_no_pressure_file_is_not_listened_to_and_what_is_missing_is_no_trouble() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("memory.pressure");
        let bell = Bell::default();
        let mut trigger = PressureTrigger::new(file.clone(), WokenBy::MemoryPressure);
        trigger.tend(&bell);
        assert_eq!(
            (trigger.told, trigger.listening.inode().is_some()),
            (None, false)
        );
        std::fs::write(&file, "").unwrap();
        // The runtime cannot wait for a plain file.
        trigger.tend(&bell);
        assert_eq!(trigger.told, Some(Manner::Not));
        assert!(trigger.listening.inode().is_none());
    }
}
