//! The source `manifests`: ordinary v1 Pod files in directories of this machine.
//!
//! A manifest directory that vanishes keeps its pods until it is back; a file that was deleted is gone at once. A file
//! that turned bad, or is caught half-written, keeps its last good pods.

use super::{
    Listing, ManifestRules, PodSource, Warning,
    directories::{Changes, Directories, ManifestDirectory},
    watcher::Watcher,
};
use std::{sync::Arc, time::Duration};
use tokio::{sync::watch, task::spawn_blocking, time::sleep};

/// Everything is looked at this often, whether the kernel told of a change or not.
const FULL_RESCAN: Duration = Duration::from_mins(1);
/// The same where the kernel can't tell.
const RESCAN_WITHOUT_WATCH: Duration = Duration::from_secs(5);
/// Editors replace a file in several steps; the last of them counts.
const SETTLING: Duration = Duration::from_millis(50);

/// Pods from manifest files.
#[derive(Debug)]
pub struct Manifests {
    directories: Directories,
}

impl Manifests {
    /// The manifests in these directories, not in directories below them.
    pub fn new(directories: Vec<ManifestDirectory>, rules: ManifestRules) -> Self {
        Self {
            directories: Directories::new(directories, rules),
        }
    }
}

impl PodSource for Manifests {
    async fn start(self) -> watch::Receiver<Arc<Listing>> {
        let mut follower = Follower {
            watcher: None,
            blind: None,
            directories: self.directories,
            sender: watch::Sender::default(),
        };
        follower.watch();
        // Nothing else runs yet that could hang with it. What another thread allocates stays in a heap of that
        // thread's, which would keep for ever what reading all manifests once takes.
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
    blind: Option<String>,
    /// Lent to another thread during a scan.
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
                told = happened(self.watcher.as_ref()) => {
                    sleep(SETTLING).await;
                    told.is_err() || self.drain(&mut changes)
                }
            };
            if watch_anew {
                // What the old watcher still knows first, then nothing between the new one and the scan is missed.
                self.drain(&mut changes);
                self.watch();
            }
            let Some(relist) = self.scan(changes).await else {
                return;
            };
            self.publish(relist);
        }
    }

    /// True if the watcher no longer serves.
    fn drain(&self, changes: &mut Changes) -> bool {
        let watcher = self.watcher.as_ref();
        watcher.is_some_and(|watcher| watcher.drain(changes).unwrap_or(true))
    }

    fn watch(&mut self) {
        let watcher = Watcher::new(&self.directories.paths());
        self.blind = watcher.as_ref().err().map(ToString::to_string);
        self.watcher = watcher.ok();
    }

    /// Whether the listing is another one now; `None` if the scanning thread was lost.
    async fn scan(&mut self, changes: Changes) -> Option<bool> {
        let mut directories = std::mem::take(&mut self.directories);
        // A directory can be on a filesystem that hangs; the daemon must not hang with it.
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
            .blind
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

async fn happened(watcher: Option<&Watcher>) -> std::io::Result<()> {
    match watcher {
        Some(watcher) => watcher.happened().await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
