//! Bytes and inodes of the node's filesystems, asked so that one which never answers stops nobody.
//!
//! `statvfs` on a local filesystem answers from memory at once. On a network or FUSE one it may hang for ever and can't
//! be interrupted, so it is asked on a thread of its own until the answer has shown that the filesystem is a local one.
//! When the mount table changes, nothing is known any more.

use super::health::Outcome;
use super::kernel_file::ReadError;
use super::layout::Layout;
use super::mounts::MountTable;
use super::reading::Reading;
use evictd_eviction::Signal;
use jiff::Timestamp;
use nix::sys::statfs::{self, FsType, statfs};
use nix::sys::statvfs::{Statvfs, statvfs};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// A directory of each filesystem that the node watches; `None` leaves its signals unobserved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FilesystemPaths {
    /// The kubelet's root directory: local volumes and logs.
    pub nodefs: Option<PathBuf>,
    /// The images.
    pub imagefs: Option<PathBuf>,
    /// The containers' writable layers.
    pub containerfs: Option<PathBuf>,
}

impl FilesystemPaths {
    fn roles(&self) -> [(Option<&PathBuf>, (Signal, Signal)); 3] {
        let nodefs = (Signal::NodefsAvailable, Signal::NodefsInodesFree);
        let imagefs = (Signal::ImagefsAvailable, Signal::ImagefsInodesFree);
        let containerfs = (Signal::ContainerfsAvailable, Signal::ContainerfsInodesFree);
        [
            (self.nodefs.as_ref(), nodefs),
            (self.imagefs.as_ref(), imagefs),
            (self.containerfs.as_ref(), containerfs),
        ]
    }
}

/// How long one look waits for an answer from a filesystem that may hang. A later answer is taken at a later look.
const PATIENCE: Duration = Duration::from_millis(5);

/// An answer that took longer than this says nothing about the present.
const TOO_OLD: jiff::SignedDuration = jiff::SignedDuration::from_secs(30);

/// Filesystems whose `statvfs` reads memory and nothing else.
const LOCAL: [FsType; 6] = [
    statfs::EXT4_SUPER_MAGIC, // ext2 and ext3 share it
    statfs::XFS_SUPER_MAGIC,
    statfs::BTRFS_SUPER_MAGIC,
    statfs::F2FS_SUPER_MAGIC,
    statfs::TMPFS_MAGIC,
    statfs::OVERLAYFS_SUPER_MAGIC,
];

/// The size of a filesystem and what is left of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Space {
    bytes_available: u64,
    bytes: u64,
    inodes_free: u64,
    inodes: u64,
}

impl Space {
    /// Root's reserve is not available to pods and does not count as such.
    fn of(found: &Statvfs) -> Self {
        let block = found.fragment_size();
        Self {
            bytes_available: found.blocks_available().saturating_mul(block),
            bytes: found.blocks().saturating_mul(block),
            inodes_free: found.files_free(),
            inodes: found.files(),
        }
    }

    fn bytes(&self) -> Reading {
        Reading::left(self.bytes_available, self.bytes)
    }

    /// `None` where the filesystem makes inodes as it needs them (btrfs) and so can't run out.
    fn inodes(&self) -> Option<Reading> {
        (self.inodes > 0).then(|| Reading::left(self.inodes_free, self.inodes))
    }
}

/// What is learned when a filesystem is asked on its thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    space: Space,
    device: u64,
    local: bool,
}

impl Answer {
    fn of(path: &Path) -> io::Result<Self> {
        Ok(Self {
            space: Space::of(&statvfs(path)?),
            device: path.metadata()?.dev(),
            local: LOCAL.contains(&statfs(path)?.filesystem_type()),
        })
    }
}

/// Asks one path, and may take for ever.
pub(super) type Ask = Arc<dyn Fn(&Path) -> io::Result<Answer> + Send + Sync>;

/// The outcome of one look at one filesystem.
pub(super) enum Look {
    /// What it said, and when it was asked.
    Space(Space, Timestamp),
    /// It refused.
    Failed(ReadError),
    /// It has not answered yet.
    Unanswered,
}

impl Look {
    /// What it means for the bytes and the inodes.
    pub(super) fn outcomes(&self) -> (Outcome<'_>, Outcome<'_>) {
        match self {
            Self::Space(space, time) => {
                let read = |reading| Outcome::Read(reading, *time);
                (
                    read(space.bytes()),
                    space.inodes().map_or(Outcome::Absent, read),
                )
            }
            Self::Failed(error) => (Outcome::Failed(error), Outcome::Failed(error)),
            Self::Unanswered => (Outcome::Unanswered, Outcome::Unanswered),
        }
    }
}

/// One watched path.
struct Probe {
    path: Arc<Path>,
    /// The bytes and the inodes signal of each role that the path has.
    feeds: Vec<(Signal, Signal)>,
    /// Known once it has answered.
    device: Option<u64>,
    /// Whether it is known to answer at once.
    local: bool,
    thread: Option<ProbeThread>,
}

/// A thread that may be stuck. At most one question is out at any time, so at most one thread a path ever is.
struct ProbeThread {
    questions: SyncSender<()>,
    answers: Receiver<io::Result<Answer>>,
    asked_at: Option<Timestamp>,
}

impl ProbeThread {
    /// The stack is small because the daemon locks its memory.
    fn start(path: Arc<Path>, ask: Ask) -> io::Result<Self> {
        let (questions, asked) = sync_channel(1);
        let (answer, answers) = sync_channel(1);
        thread::Builder::new()
            .name("statvfs".to_owned())
            .stack_size(128 * 1024)
            .spawn(
                move || {
                    while asked.recv().is_ok() && answer.send(ask(&path)).is_ok() {}
                },
            )?;
        Ok(Self {
            questions,
            answers,
            asked_at: None,
        })
    }

    /// Asks unless a question is out, and waits a little. `None`: no answer yet.
    fn look(&mut self, now: Timestamp) -> Option<(io::Result<Answer>, Timestamp)> {
        if let Some(asked_at) = self.asked_at {
            let answer = self.receive(Duration::ZERO)?;
            if now.duration_since(asked_at) <= TOO_OLD {
                return Some((answer, asked_at));
            }
        }
        self.asked_at = Some(now);
        // Can't block: the queue holds one, and no question is out.
        let _ = self.questions.try_send(());
        Some((self.receive(PATIENCE)?, now))
    }

    fn receive(&mut self, patience: Duration) -> Option<io::Result<Answer>> {
        let answer = match self.answers.recv_timeout(patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => return None,
            Err(RecvTimeoutError::Disconnected) => Err(io::Error::other("the thread died")),
        };
        self.asked_at = None;
        Some(answer)
    }
}

impl Probe {
    fn look(&mut self, now: Timestamp, ask: &Ask) -> Look {
        let outcome = if self.local {
            let found = statvfs(self.path.as_ref()).map_err(io::Error::from);
            found.map(|found| Some((Space::of(&found), now)))
        } else {
            self.look_on_thread(now, ask)
        };
        match outcome {
            Ok(Some((space, time))) => Look::Space(space, time),
            Ok(None) => Look::Unanswered,
            Err(source) => Look::Failed(ReadError::Io {
                path: Arc::clone(&self.path),
                source,
            }),
        }
    }

    fn look_on_thread(
        &mut self,
        now: Timestamp,
        ask: &Ask,
    ) -> io::Result<Option<(Space, Timestamp)>> {
        let thread = match &mut self.thread {
            Some(thread) => thread,
            none => none.insert(ProbeThread::start(Arc::clone(&self.path), Arc::clone(ask))?),
        };
        let Some((answer, asked_at)) = thread.look(now) else {
            return Ok(None);
        };
        let answer = answer?;
        self.device = Some(answer.device);
        self.local = answer.local;
        if answer.local {
            self.thread = None;
        }
        Ok(Some((answer.space, asked_at)))
    }
}

/// All watched filesystems.
pub(super) struct Filesystems {
    paths: FilesystemPaths,
    /// One for each path, however many roles it has.
    probes: Vec<Probe>,
    mounts: MountTable,
    ask: Ask,
}

impl Filesystems {
    pub(super) fn new(paths: FilesystemPaths, proc_root: &Path) -> Self {
        Self::asking(Arc::new(Answer::of), paths, proc_root)
    }

    fn asking(ask: Ask, paths: FilesystemPaths, proc_root: &Path) -> Self {
        let mut probes: Vec<Probe> = Vec::new();
        for (path, feeds) in paths.roles() {
            let Some(path) = path else { continue };
            match probes.iter_mut().find(|probe| *probe.path == **path) {
                Some(probe) => probe.feeds.push(feeds),
                None => probes.push(Probe {
                    path: path.as_path().into(),
                    feeds: vec![feeds],
                    device: None,
                    local: false,
                    thread: None,
                }),
            }
        }
        Self {
            paths,
            probes,
            mounts: MountTable::watch(proc_root),
            ask,
        }
    }

    /// Looks at each filesystem, and tells the outcome for each pair of bytes and inodes signals that it feeds.
    pub(super) fn look(&mut self, now: Timestamp, mut tell: impl FnMut((Signal, Signal), &Look)) {
        let changed = self.mounts.changed();
        for probe in &mut self.probes {
            probe.local &= !changed;
            let look = probe.look(now, &self.ask);
            for feeds in &probe.feeds {
                tell(*feeds, &look);
            }
        }
    }

    pub(super) fn layout(&self) -> Option<Layout> {
        let device = |path: &Path| {
            let probe = self.probes.iter().find(|probe| *probe.path == *path)?;
            probe.device
        };
        Layout::of(&self.paths, device, |device| self.mounts.describe(device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::mount::{MsFlags, mount};
    use nix::sched::{CloneFlags, unshare};
    use std::os::unix::fs::symlink;
    use std::sync::mpsc::channel;
    use tempfile::tempdir;

    const BOTH: (Signal, Signal) = (Signal::NodefsAvailable, Signal::NodefsInodesFree);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    fn nodefs(path: &Path) -> FilesystemPaths {
        FilesystemPaths {
            nodefs: Some(path.to_owned()),
            ..FilesystemPaths::default()
        }
    }

    fn look(filesystems: &mut Filesystems, now: Timestamp) -> Look {
        let mut seen = None;
        filesystems.look(now, |feeds, look| {
            assert_eq!(feeds, BOTH);
            seen = Some(match look {
                Look::Space(space, time) => Look::Space(*space, *time),
                Look::Failed(error) => panic!("{error}"),
                Look::Unanswered => Look::Unanswered,
            });
        });
        seen.unwrap()
    }

    /// Looks until the filesystem has answered, which takes more than one look on a busy machine.
    fn answered(filesystems: &mut Filesystems, now: Timestamp) -> (Space, Timestamp) {
        for _ in 0..1000 {
            if let Look::Space(space, time) = look(filesystems, now) {
                return (space, time);
            }
        }
        panic!("no answer");
    }

    fn answer() -> Answer {
        Answer {
            space: Space {
                bytes_available: 40,
                bytes: 100,
                inodes_free: 5,
                inodes: 10,
            },
            device: 7,
            local: false,
        }
    }

    #[test]
    fn a_hung_filesystem_costs_one_question_and_recovers() {
        let (question, asked) = channel();
        let (let_go, held) = sync_channel::<()>(0);
        let held = std::sync::Mutex::new(held);
        let ask: Ask = Arc::new(move |_| {
            question.send(()).unwrap();
            held.lock().unwrap().recv().map_err(io::Error::other)?;
            Ok(answer())
        });
        let path = nodefs(Path::new("/dead"));
        let mut filesystems = Filesystems::asking(ask, path, Path::new("/proc"));
        for second in 0..10 {
            assert!(matches!(
                look(&mut filesystems, at(second)),
                Look::Unanswered
            ));
        }
        asked.recv().unwrap();
        assert!(
            asked.try_recv().is_err(),
            "asked again while a question was out"
        );
        assert_eq!(filesystems.layout(), None);

        // The answer arrives late, and is dated when it was asked for.
        let_go.send(()).unwrap();
        let (space, time) = answered(&mut filesystems, at(10));
        assert_eq!((space, time), (answer().space, at(0)));
        assert_eq!(
            filesystems.layout().map(|l| l.dedicated_image_fs),
            Some(false)
        );

        // The next one takes so long that it is thrown away, and asked for again.
        assert!(matches!(look(&mut filesystems, at(11)), Look::Unanswered));
        asked.recv().unwrap();
        let_go.send(()).unwrap();
        while asked.try_recv().is_err() {
            assert!(matches!(look(&mut filesystems, at(100)), Look::Unanswered));
        }
    }

    #[test]
    fn a_local_filesystem_is_asked_in_place() {
        let directory = tempdir().unwrap();
        let mut filesystems = Filesystems::new(nodefs(directory.path()), Path::new("/proc"));
        let (first, _) = answered(&mut filesystems, at(1));
        assert!(first.bytes > 0 && first.bytes_available <= first.bytes);
        assert!(filesystems.probes[0].local && filesystems.probes[0].thread.is_none());
        let (second, time) = answered(&mut filesystems, at(2));
        assert_eq!((second.bytes, time), (first.bytes, at(2)));
        let sentence = filesystems.layout().unwrap().to_string();
        assert!(
            sentence.contains(&directory.path().display().to_string()),
            "{sentence}"
        );
    }

    #[test]
    fn a_missing_directory_fails_until_it_is_there() {
        let directory = tempdir().unwrap();
        let path = directory.path().join("images");
        let mut filesystems = Filesystems::new(nodefs(&path), Path::new("/proc"));
        let mut failed = None;
        while failed.is_none() {
            filesystems.look(at(1), |_, look| {
                if let Look::Failed(error) = look {
                    failed = Some(error.to_string());
                }
            });
        }
        assert!(
            failed
                .unwrap()
                .starts_with(&format!("cannot read {}", path.display()))
        );
        std::fs::create_dir(&path).unwrap();
        answered(&mut filesystems, at(2));
    }

    #[test]
    fn a_filesystem_without_a_count_of_inodes_has_no_inode_signal() {
        let mut space = answer().space;
        assert_eq!(space.inodes(), Some(Reading::left(5, 10)));
        space.inodes = 0;
        assert_eq!(space.inodes(), None);
        assert_eq!(space.bytes(), Reading::left(40, 100));
    }

    #[test]
    fn a_path_with_two_roles_is_asked_once() {
        let paths = FilesystemPaths {
            nodefs: Some("/a".into()),
            imagefs: Some("/b".into()),
            containerfs: Some("/b".into()),
        };
        let filesystems = Filesystems::new(paths, Path::new("/proc"));
        let feeds: Vec<_> = filesystems
            .probes
            .iter()
            .map(|probe| probe.feeds.len())
            .collect();
        assert_eq!(feeds, [1, 2]);
    }

    #[test]
    fn something_mounted_over_a_known_directory_is_noticed() {
        let directory = tempdir().unwrap();
        let target = directory.path().join("nodefs");
        let proc_root = directory.path().join("proc");
        std::fs::create_dir(&target).unwrap();
        std::fs::create_dir(&proc_root).unwrap();
        // The mounts of this one thread, which gets a mount table of its own.
        symlink("/proc/thread-self", proc_root.join("self")).unwrap();
        let private = thread::spawn(move || {
            if let Err(error) = unshare(CloneFlags::CLONE_NEWNS) {
                eprintln!("LEFT OUT something_mounted_over_a_known_directory_is_noticed: {error}");
                return;
            }
            let none: Option<&str> = None;
            mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).unwrap();
            let mut filesystems = Filesystems::new(nodefs(&target), &proc_root);
            let (before, _) = answered(&mut filesystems, at(1));
            answered(&mut filesystems, at(2));
            assert!(filesystems.probes[0].local);

            let size = Some("size=1m,nr_inodes=64");
            mount(
                Some("tmpfs"),
                &target,
                Some("tmpfs"),
                MsFlags::empty(),
                size,
            )
            .unwrap();
            filesystems.look(at(3), |_, _| assert_ne!(before.bytes, 1 << 20));
            let (after, _) = answered(&mut filesystems, at(4));
            assert_eq!((after.bytes, after.inodes), (1 << 20, 64));
        });
        private.join().unwrap();
    }
}
