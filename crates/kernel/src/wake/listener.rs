//! A task that listens to one kernel file, which may go and come back as another.

use std::{future::Future, os::unix::fs::MetadataExt, path::Path};
use tokio::task::JoinHandle;

/// Dropped, it listens no more.
#[derive(Debug, Default)]
pub(super) struct Listener(Option<(u64, JoinHandle<()>)>);

impl Listener {
    /// The inode at `path` if nobody listens to it yet. Who listened to one that is there no more is ended: a group that was
    /// removed and made anew is another.
    pub(super) fn unheard(&mut self, path: &Path) -> Option<u64> {
        let inode = std::fs::metadata(path).ok().map(|file| file.ino());
        let known = self.0.as_ref().map(|(known, _)| *known);
        if inode.is_some() && inode == known {
            return None;
        }
        self.stop();
        inode
    }

    /// Listens, to what has this inode.
    pub(super) fn begin(&mut self, inode: u64, task: impl Future<Output = ()> + Send + 'static) {
        self.0 = Some((inode, tokio::spawn(task)));
    }

    /// What it listens to.
    #[cfg(test)]
    pub(super) fn inode(&self) -> Option<u64> {
        self.0.as_ref().map(|(inode, _)| *inode)
    }

    fn stop(&mut self) {
        if let Some((_, task)) = self.0.take() {
            task.abort();
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.stop();
    }
}
