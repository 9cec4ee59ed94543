//! The source `manifests`: ordinary v1 Pod files in directories of this machine.
//!
//! If a manifest directory disappears its pods stay until it is back; the pods of a deleted file end at once. If a file
//! becomes invalid, or is read half-written, its last valid pods stay.

use super::{
    Listing, ManifestRules, PodSource, Warning,
    directories::{Changes, Directories, ManifestDirectory},
    watcher::Watcher,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

/// How often everything is scanned even if the kernel reported no change.
const FULL_RESCAN: Duration = Duration::from_mins(1);
/// The same if the kernel cannot report changes.
const RESCAN_WITHOUT_WATCH: Duration = Duration::from_secs(5);
/// How long to wait after a change: editors replace a file in several steps.
const SETTLING: Duration = Duration::from_millis(50);

/// Pods from manifest files.
#[derive(Debug)]
pub(crate) struct Manifests {
    directories: Directories,
}

impl Manifests {
    /// The manifests in these directories; subdirectories are ignored.
    pub(crate) fn new(directories: Vec<ManifestDirectory>, rules: ManifestRules) -> Self {
        Self {
            directories: Directories::new(directories, rules),
        }
    }
}

impl PodSource for Manifests {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let mut follower = Follower {
            watcher: None,
            read_error: None,
            directories: self.directories,
            sender: watch::Sender::default(),
        };
        follower.watch();
        // Runs on this thread: nothing else runs yet that it could block. On another thread the memory for reading
        // all manifests once would stay in that thread's heap for ever.
        let relist = follower.directories.scan(&Changes::default());
        follower.publish(relist);
        let receiver = follower.sender.subscribe();
        tokio::spawn(follower.follow());
        receiver
    }
}

/// The task that keeps the listing up to date.
struct Follower {
    watcher: Option<Watcher>,
    /// Why there is no watcher.
    read_error: Option<String>,
    /// Moved to another thread during a scan.
    directories: Directories,
    sender: watch::Sender<Arc<Listing>>,
}

impl Follower {
    async fn follow(mut self) {
        loop {
            let rescan = if self.watcher.is_some() {
                FULL_RESCAN
            } else {
                RESCAN_WITHOUT_WATCH
            };
            let mut changes = Changes::default();
            let watch_anew = tokio::select! {
                () = self.sender.closed() => return,
                () = sleep(rescan) => true,
                change = changed(self.watcher.as_ref()) => {
                    sleep(SETTLING).await;
                    change.is_err() || self.drain(&mut changes)
                }
            };
            if watch_anew {
                // First the rest of the old watcher's changes; then a new watcher before the scan, so that no
                // change is missed between them.
                self.drain(&mut changes);
                self.watch();
            }
            let Some(relist) = self.scan(changes).await else {
                return;
            };
            self.publish(relist);
        }
    }

    /// Adds the watcher's changes; true if the watcher must be replaced.
    fn drain(&self, changes: &mut Changes) -> bool {
        let watcher = self.watcher.as_ref();
        watcher.is_some_and(|watcher| watcher.drain(changes).unwrap_or(true))
    }

    fn watch(&mut self) {
        let watcher = Watcher::new(&self.directories.paths());
        self.read_error = watcher.as_ref().err().map(ToString::to_string);
        self.watcher = watcher.ok();
    }

    /// Whether the listing changed; `None` if the scanning thread was lost.
    async fn scan(&mut self, changes: Changes) -> Option<bool> {
        let mut directories = std::mem::take(&mut self.directories);
        // A directory may be on a filesystem that hangs; the daemon must not hang with it.
        let scan = spawn_blocking(move || {
            let relist = directories.scan(&changes);
            (directories, relist)
        });
        let (directories, relist) = scan.await.ok()?;
        self.directories = directories;
        Some(relist)
    }

    fn publish(&self, relist: bool) {
        let warning = self
            .read_error
            .clone()
            .map(|problem| Warning::NotWatching { problem });
        let warned = matches!(
            self.sender.borrow().warnings.last(),
            Some(Warning::NotWatching { .. })
        );
        if relist || warned != warning.is_some() {
            let mut listing = self.directories.listing();
            listing.warnings.extend(warning);
            self.sender.send_replace(Arc::new(listing));
        }
    }
}

async fn changed(watcher: Option<&Watcher>) -> std::io::Result<()> {
    match watcher {
        Some(watcher) => watcher.changed().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
