//! Files that are deleted but open, for the pods whose processes hold them: no walk finds them, and their bytes return
//! only when these processes end.

use evictd_kernel::{
    deleted::{DeletedFile, DeletedFiles},
    threads::Pool,
};
use evictd_usage::{
    DeletedUsage,
    figure::{Figure, Source, sum},
};
use jiff::Timestamp;
use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    sync::oneshot::{Receiver, error::TryRecvError},
    time::timeout,
};

/// Looks at the open files of all processes, on a separate thread: the filesystem of a file may hang.
#[derive(Debug)]
pub(super) struct OpenDeleted {
    proc: PathBuf,
    threads: Pool,
    /// A look that has not ended.
    looking: Option<Receiver<DeletedFiles>>,
    found: Arc<DeletedFiles>,
    /// When the last look began.
    looked: Option<Timestamp>,
}

impl OpenDeleted {
    pub(super) fn new(proc: PathBuf, threads: Pool) -> Self {
        Self {
            proc,
            threads,
            looking: None,
            found: Arc::default(),
            looked: None,
        }
    }

    /// Searches anew, for this time and then at most as long as it may take to stop. Files that are not found by then
    /// are left out.
    pub(super) async fn look(
        &mut self,
        now: Timestamp,
        (patience, stopping): (Duration, Duration),
    ) {
        self.looked = Some(now);
        self.found = Arc::default();
        if let Some(earlier) = &mut self.looking
            // The last look hangs, perhaps on a dead filesystem. Another would take a second thread.
            && earlier.try_recv().err() == Some(TryRecvError::Empty)
        {
            return;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let (proc, stopped) = (self.proc.clone(), Arc::clone(&stop));
        let look = move || DeletedFiles::look_for(&proc, &stopped).unwrap_or_default();
        let Ok(mut look) = self.threads.run(look) else {
            return;
        };
        let mut found = timeout(patience, &mut look).await;
        if found.is_err() {
            // It looks at this between two files, and then returns what it has found.
            stop.store(true, Ordering::Relaxed);
            found = timeout(stopping, &mut look).await;
        }
        match found {
            Ok(found) => self.found = Arc::new(found.unwrap_or_default()),
            Err(_) => self.looking = Some(look),
        }
    }

    /// The result of the last search.
    pub(super) fn found(&self) -> Arc<DeletedFiles> {
        Arc::clone(&self.found)
    }

    /// The files that processes of this cgroup hold on these devices, and in the layers of its containers, which have
    /// devices of their own.
    pub(super) fn of(&self, cgroup: &Path, devices: &[u64]) -> DeletedUsage {
        let mut usage = DeletedUsage::default();
        for file in &self.found.files {
            let part = if devices.contains(&file.device) {
                &mut usage.on_disk
            // An overlay has a device of its own, whatever disk its layers are on.
            } else if file.in_overlay {
                &mut usage.in_layers
            } else {
                continue;
            };
            if is_held_in(file, cgroup) {
                let bytes = Figure::bytes(file.bytes).measured(Source::OpenFiles, self.looked);
                let inodes = Figure::inodes(1).measured(Source::OpenFiles, self.looked);
                part.bytes = sum([part.bytes, Some(bytes)].into_iter());
                part.inodes = sum([part.inodes, Some(inodes)].into_iter());
            }
        }
        usage
    }
}

/// Whether a process of this cgroup, or of one below it, was the first that was found to hold the file.
pub(super) fn is_held_in(file: &DeletedFile, cgroup: &Path) -> bool {
    file.cgroups.iter().any(|one| one.starts_with(cgroup))
}
