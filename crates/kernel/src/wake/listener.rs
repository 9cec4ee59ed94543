//! A task that listens to one kernel file, which may be removed and created again.

use std::{future::Future, os::unix::fs::MetadataExt, path::Path};
use tokio::task::JoinHandle;

/// The task ends when this is dropped.
#[derive(Debug, Default)]
pub(super) struct Listener(Option<(u64, JoinHandle<()>)>);

impl Listener {
    /// The inode at `path` if no task listens to it yet. A task that listens to a removed file is ended: a cgroup
    /// that was removed and created again has new files.
    pub(super) fn new_inode(&mut self, path: &Path) -> Option<u64> {
        let inode = std::fs::metadata(path).ok().map(|file| file.ino());
        let known = self.0.as_ref().map(|(known, _)| *known);
        if inode.is_some() && inode == known {
            return None;
        }
        self.stop();
        inode
    }

    /// Starts the task that listens to the file with this inode.
    pub(super) fn start(&mut self, inode: u64, task: impl Future<Output = ()> + Send + 'static) {
        self.0 = Some((inode, tokio::spawn(task)));
    }

    /// The inode of the file that the task listens to.
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
