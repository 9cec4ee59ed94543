//! Asks one directory's filesystem for its space, so that a filesystem that never answers blocks nothing else.
//!
//! `statvfs` on a local filesystem answers from memory at once. On a network or FUSE filesystem it may hang for
//! ever and cannot be interrupted. So it is called on another thread until its answer shows that the filesystem is
//! a local one.

use super::health::Outcome;
use super::mounts::MountTable;
use super::reading::Reading;
use crate::kernel_file::ReadError;
use crate::threads::{NoThread, Pool};
use evictd_signals::Signal;
use jiff::{SignedDuration, Timestamp};
use nix::sys::statfs::{self, FsType, statfs};
use nix::sys::statvfs::{FsFlags, Statvfs, statvfs};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;

/// How long one observation waits for a filesystem that may hang. A later answer is used by a later observation.
const TIMEOUT: Duration = Duration::from_millis(5);

/// The same for the first observation at all, since until then not even the layout is known. On a busy machine the thread
/// that asks may need some time to run.
const FIRST_TIMEOUT: Duration = Duration::from_millis(100);

/// An answer that took longer than this is discarded as out of date.
const MAX_AGE: SignedDuration = SignedDuration::from_secs(30);

/// How often the mount table is read at most: the kernel makes a filesystem read-only after errors without a change that
/// it reports, and ext4 not even in the answer of `statvfs`.
const MOUNT_TABLE: SignedDuration = SignedDuration::from_secs(1);

/// Filesystems whose `statvfs` only reads memory.
const LOCAL: [FsType; 6] = [
    statfs::EXT4_SUPER_MAGIC, // ext2 and ext3 share it
    statfs::XFS_SUPER_MAGIC,
    statfs::BTRFS_SUPER_MAGIC,
    statfs::F2FS_SUPER_MAGIC,
    statfs::TMPFS_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
];

/// The size of a filesystem and its free space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    pub(super) bytes_available: u64,
    pub(super) bytes: u64,
    pub(super) inodes_free: u64,
    pub(super) inodes: u64,
    /// Whether it cannot be written through the mount that was asked. The filesystem itself may be writable.
    pub(super) no_writes: bool,
}

impl Space {
    /// Blocks reserved for root count as capacity but not as available, because pods cannot use them.
    fn of(found: &Statvfs) -> Self {
        let block = found.fragment_size();
        Self {
            bytes_available: found.blocks_available().saturating_mul(block),
            bytes: found.blocks().saturating_mul(block),
            inodes_free: found.files_free(),
            inodes: found.files(),
            no_writes: found.flags().contains(FsFlags::ST_RDONLY),
        }
    }

    pub(super) fn bytes(&self) -> Reading {
        Reading::left(self.bytes_available, self.bytes)
    }

    /// `None` if the filesystem creates inodes on demand (btrfs) and cannot run out of them.
    pub(super) fn inodes(&self) -> Option<Reading> {
        (self.inodes > 0).then(|| Reading::left(self.inodes_free, self.inodes))
    }
}

/// The answer of a filesystem that was asked on another thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) space: Space,
    pub(super) device: u64,
    pub(super) local: bool,
}

impl Answer {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            space: Space::of(&statvfs(path)?),
            device: path.metadata()?.dev(),
            local: LOCAL.contains(&statfs(path)?.filesystem_type()),
        })
    }
}

/// Asks the filesystem of a path; may never return.
pub(super) type Ask = Arc<dyn Fn(&Path) -> io::Result<Answer> + Send + Sync>;

/// The result of asking one filesystem.
pub(super) enum ProbeResult {
    /// The answer, and the time of the question.
    Space(Space, Timestamp),
    Failed(ReadError),
    /// It has not answered yet.
    Unanswered,
}

impl ProbeResult {
    /// The outcome of this result at time `now`, for the bytes and the inodes signal.
    pub(super) fn outcomes(&self, now: Timestamp) -> (Outcome<'_>, Outcome<'_>) {
        match self {
            Self::Space(space, time) => {
                let read = |reading| Outcome::Read(reading, *time);
                (
                    read(space.bytes()),
                    space.inodes().map_or(Outcome::Absent, read),
                )
            }
            Self::Failed(error) => (Outcome::Failed(error), Outcome::Failed(error)),
            Self::Unanswered => (Outcome::Unanswered(now), Outcome::Unanswered(now)),
        }
    }
}

pub(super) struct Probe {
    pub(super) path: Arc<Path>,
    /// The pair of bytes and inodes signals of each role that the path has.
    pub(super) feeds: Vec<(Signal, Signal)>,
    /// The device number; known after the first answer.
    pub(super) device: Option<u64>,
    /// Whether the last question failed.
    pub(super) failed: bool,
    /// Whether the filesystem cannot be written, by any mount, and when the mount table was last read for that.
    pub(super) read_only: (bool, Option<Timestamp>),
    /// Whether its filesystem is known to answer at once.
    local: bool,
    /// How long the next answer is waited for.
    patience: Duration,
    threads: Pool,
    /// At most one is pending, so at most one thread per path may ever hang.
    pending: Option<PendingCall>,
}

/// A question that another thread is asking.
struct PendingCall {
    answer: Receiver<io::Result<Answer>>,
    asked_at: Timestamp,
}

impl PendingCall {
    fn ask(path: &Arc<Path>, ask: &Ask, threads: &Pool, now: Timestamp) -> Result<Self, NoThread> {
        let (sender, answer) = sync_channel(1);
        let (path, ask) = (Arc::clone(path), Arc::clone(ask));
        threads.submit(move || drop(sender.send(ask(&path))))?;
        Ok(Self {
            answer,
            asked_at: now,
        })
    }

    /// Waits up to `timeout` for the answer; `None` if there is none yet.
    fn answered(&self, timeout: Duration) -> Option<io::Result<Answer>> {
        match self.answer.recv_timeout(timeout) {
            Ok(answer) => Some(answer),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(Err(io::Error::other("the thread died"))),
        }
    }
}

impl Probe {
    /// Feeds no signal yet.
    pub(super) fn new(path: &Path, threads: Pool) -> Self {
        Self {
            path: path.into(),
            feeds: Vec::new(),
            device: None,
            failed: false,
            read_only: (false, None),
            local: false,
            patience: FIRST_TIMEOUT,
            threads,
            pending: None,
        }
    }

    /// Forgets the device: another filesystem may be mounted there by now.
    pub(super) fn forget(&mut self) {
        self.local = false;
        self.read_only.1 = None;
    }

    /// Whether the filesystem cannot be written. A read-only mount of it, as in a container, is no proof. The mount
    /// table is, and it is read now and then.
    pub(super) fn is_read_only(
        &mut self,
        now: Timestamp,
        space: &Space,
        mounts: &MountTable,
    ) -> bool {
        let (known, read_at) = self.read_only;
        if read_at.is_none_or(|at| now.duration_since(at) >= MOUNT_TABLE) {
            let by_mount = mounts.is_read_only(&self.path, self.device);
            self.read_only = (by_mount.unwrap_or(space.no_writes), Some(now));
            return self.read_only.0;
        }
        known
    }

    pub(super) fn probe(&mut self, now: Timestamp, ask: &Ask) -> ProbeResult {
        // A local filesystem answers from memory, so no thread is needed.
        let outcome = if self.local {
            let found = statvfs(self.path.as_ref()).map_err(io::Error::from);
            found.map(|found| Some((Space::of(&found), now)))
        } else {
            self.probe_on_thread(now, ask)
        };
        self.failed = outcome.is_err();
        match outcome {
            Ok(Some((space, time))) => ProbeResult::Space(space, time),
            Ok(None) => ProbeResult::Unanswered,
            Err(source) => ProbeResult::Failed(ReadError::Io {
                path: Arc::clone(&self.path),
                source,
            }),
        }
    }

    fn probe_on_thread(
        &mut self,
        now: Timestamp,
        ask: &Ask,
    ) -> io::Result<Option<(Space, Timestamp)>> {
        let Some((answer, asked_at)) = self.ask(now, ask)? else {
            return Ok(None);
        };
        let answer = answer?;
        self.device = Some(answer.device);
        self.local = answer.local;
        Ok(Some((answer.space, asked_at)))
    }

    /// Asks unless a question is pending, and waits a little. `None` if there is no answer yet.
    fn ask(
        &mut self,
        now: Timestamp,
        ask: &Ask,
    ) -> io::Result<Option<(io::Result<Answer>, Timestamp)>> {
        if let Some(pending) = &self.pending {
            // The loop has waited for this question once; from then on it only looks.
            let Some(answer) = pending.answered(Duration::ZERO) else {
                return Ok(None);
            };
            let asked_at = pending.asked_at;
            self.pending = None;
            if now.duration_since(asked_at) <= MAX_AGE {
                return Ok(Some((answer, asked_at)));
            }
        }
        let pending =
            PendingCall::ask(&self.path, ask, &self.threads, now).map_err(io::Error::other)?;
        let answer = pending.answered(self.patience);
        self.patience = TIMEOUT;
        if answer.is_none() {
            self.pending = Some(pending);
        }
        Ok(answer.map(|answer| (answer, now)))
    }
}
