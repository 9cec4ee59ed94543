//! Bytes and inodes of the node's filesystems, and which of its directories share one.

use super::layout::{Device, FilesystemPaths, Layout};
use super::mounts::MountTable;
use super::probe::{Answer, Ask, Probe, ProbeResult};
use crate::threads::Pool;
use evictd_signals::Signal;
use jiff::Timestamp;
use std::path::{Path, PathBuf};
use std::sync::Arc;

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

pub(super) struct Filesystems {
    proc_root: PathBuf,
    paths: FilesystemPaths,
    /// One per path, however many roles the path has.
    probes: Vec<Probe>,
    mounts: MountTable,
    ask: Ask,
}

impl Filesystems {
    pub(super) fn new(paths: FilesystemPaths, proc_root: &Path) -> Self {
        Self::with_ask(Arc::new(Answer::of), paths, proc_root)
    }

    fn with_ask(ask: Ask, paths: FilesystemPaths, proc_root: &Path) -> Self {
        let threads = Pool::of_this_process();
        let mut probes: Vec<Probe> = Vec::new();
        for (path, feeds) in paths.roles() {
            let Some(path) = path else { continue };
            probe_of(&mut probes, path, &threads).feeds.push(feeds);
        }
        for path in paths
            .runtime
            .iter()
            .flat_map(|paths| [&paths.images, &paths.layers])
        {
            probe_of(&mut probes, path, &threads);
        }
        Self {
            proc_root: proc_root.to_owned(),
            paths,
            probes,
            mounts: MountTable::watch(proc_root),
            ask,
        }
    }

    /// Other directories than before.
    pub(super) fn watch(&mut self, paths: FilesystemPaths) {
        if paths != self.paths {
            *self = Self::with_ask(Arc::clone(&self.ask), paths, &self.proc_root);
        }
    }

    /// Observes each filesystem, and calls `report` for each pair of bytes and inodes signals that it feeds. `report`
    /// gets the result and whether the filesystem is read-only.
    pub(super) fn probe_all(
        &mut self,
        now: Timestamp,
        mut report: impl FnMut((Signal, Signal), &ProbeResult, bool),
    ) {
        let changed = self.mounts.changed();
        for probe in &mut self.probes {
            if changed {
                probe.forget();
            }
            let result = probe.probe(now, &self.ask);
            let read_only = match &result {
                ProbeResult::Space(space, _) => probe.is_read_only(now, space, &self.mounts),
                ProbeResult::Failed(_) | ProbeResult::Unanswered => probe.read_only.0,
            };
            for feeds in &probe.feeds {
                report(*feeds, &result, read_only);
            }
        }
    }

    pub(super) fn layout(&self) -> Option<Layout> {
        let device = |path: &Path| {
            let probe = self.probes.iter().find(|probe| *probe.path == *path);
            match probe.map(|probe| (probe.device, probe.failed)) {
                Some((Some(device), _)) => Device::Known(device),
                Some((None, true)) => Device::Missing,
                Some((None, false)) | None => Device::Unanswered,
            }
        };
        Layout::of(&self.paths, device, |device| self.mounts.describe(device))
    }
}

/// The probe of this path; a new one feeds no signal.
fn probe_of<'a>(probes: &'a mut Vec<Probe>, path: &Path, threads: &Pool) -> &'a mut Probe {
    let known = probes.iter().position(|probe| *probe.path == *path);
    let index = known.unwrap_or_else(|| {
        probes.push(Probe::new(path, threads.clone()));
        probes.len() - 1
    });
    &mut probes[index]
}

#[cfg(test)]
mod tests {
    use super::super::probe::Space;
    use super::super::reading::Reading;
    use super::*;
    use evictd_testkit::testing::{wait_until, with_tmpfs};
    use nix::mount::{MsFlags, mount};
    use std::io;
    use std::os::unix::fs::symlink;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::{channel, sync_channel};
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

    fn probe(filesystems: &mut Filesystems, now: Timestamp) -> ProbeResult {
        let mut seen = None;
        filesystems.probe_all(now, |feeds, result, _| {
            assert_eq!(feeds, BOTH);
            seen = Some(match result {
                ProbeResult::Space(space, time) => ProbeResult::Space(*space, *time),
                ProbeResult::Failed(error) => panic!("{error}"),
                ProbeResult::Unanswered => ProbeResult::Unanswered,
            });
        });
        seen.unwrap()
    }

    /// Observes until the filesystem has answered, which may take several attempts on a busy machine.
    fn answered(filesystems: &mut Filesystems, now: Timestamp) -> (Space, Timestamp) {
        let mut answer = None;
        wait_until("the filesystem answers", || {
            if let ProbeResult::Space(space, time) = probe(filesystems, now) {
                answer = Some((space, time));
            }
            answer.is_some()
        });
        answer.unwrap()
    }

    fn answer() -> Answer {
        Answer {
            space: Space {
                bytes_available: 40,
                bytes: 100,
                inodes_free: 5,
                inodes: 10,
                no_writes: false,
            },
            device: 7,
            local: false,
        }
    }

    #[test]
    fn a_hung_filesystem_costs_one_question_and_recovers() {
        let (question, asked) = channel();
        let (let_go, held) = sync_channel::<()>(0);
        let held = Mutex::new(held);
        let ask: Ask = Arc::new(move |_| {
            question.send(()).unwrap();
            held.lock().unwrap().recv().map_err(io::Error::other)?;
            Ok(answer())
        });
        let path = nodefs(Path::new("/dead"));
        let mut filesystems = Filesystems::with_ask(ask, path, Path::new("/proc"));
        for second in 0..10 {
            assert!(matches!(
                probe(&mut filesystems, at(second)),
                ProbeResult::Unanswered
            ));
        }
        asked.recv().unwrap();
        assert!(
            asked.try_recv().is_err(),
            "asked again while a question was out"
        );
        assert_eq!(filesystems.layout(), None);

        // The answer arrives late; its time is that of the question.
        let_go.send(()).unwrap();
        let (space, time) = answered(&mut filesystems, at(10));
        assert_eq!((space, time), (answer().space, at(0)));
        assert_eq!(
            filesystems.layout().map(|l| l.dedicated_image_fs),
            Some(false)
        );

        // The next answer takes so long that it is discarded, and the question is asked again.
        assert!(matches!(
            probe(&mut filesystems, at(11)),
            ProbeResult::Unanswered
        ));
        asked.recv().unwrap();
        let_go.send(()).unwrap();
        wait_until("it is asked again", || {
            assert!(matches!(
                probe(&mut filesystems, at(100)),
                ProbeResult::Unanswered
            ));
            asked.try_recv().is_ok()
        });
    }

    #[test]
    fn a_filesystem_is_described() {
        let directory = tempdir().unwrap();
        let mut filesystems = Filesystems::new(nodefs(directory.path()), Path::new("/proc"));
        let (first, _) = answered(&mut filesystems, at(1));
        assert!(first.bytes > 0 && first.bytes_available <= first.bytes);
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
        wait_until("the question fails", || {
            filesystems.probe_all(at(1), |_, result, _| {
                if let ProbeResult::Failed(error) = result {
                    failed = Some(error.to_string());
                }
            });
            failed.is_some()
        });
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
            runtime: None,
        };
        let filesystems = Filesystems::new(paths, Path::new("/proc"));
        let feeds: Vec<_> = filesystems
            .probes
            .iter()
            .map(|probe| probe.feeds.len())
            .collect();
        assert_eq!(feeds, [1, 2]);
    }

    /// Asks as usual, and counts the questions.
    fn counting() -> (Ask, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let ask: Ask = Arc::new(move |path| {
            count.fetch_add(1, Ordering::SeqCst);
            Answer::of(path)
        });
        (ask, asked)
    }

    #[test]
    fn something_mounted_over_a_known_directory_is_noticed() {
        let directory = tempdir().unwrap();
        let target = directory.path().join("nodefs");
        let proc_root = directory.path().join("proc");
        std::fs::create_dir(&target).unwrap();
        std::fs::create_dir(&proc_root).unwrap();
        // Each thread has its own mount table entry, so use that of this test's thread.
        symlink("/proc/thread-self", proc_root.join("self")).unwrap();
        let name = "something_mounted_over_a_known_directory_is_noticed";
        with_tmpfs(name, target, 1024, move |target| {
            let (ask, asked) = counting();
            let mut filesystems = Filesystems::with_ask(ask, nodefs(target), &proc_root);
            for second in 0..3 {
                let (before, _) = answered(&mut filesystems, at(second));
                assert_eq!(before.bytes, 1 << 20);
            }
            assert_eq!(asked.load(Ordering::SeqCst), 1);

            let tmpfs = Some("tmpfs");
            let size = Some("size=2m,nr_inodes=64");
            mount(tmpfs, target, tmpfs, MsFlags::empty(), size).unwrap();
            for second in 3..6 {
                let (after, _) = answered(&mut filesystems, at(second));
                assert_eq!((after.bytes, after.inodes), (2 << 20, 64));
            }
            assert_eq!(asked.load(Ordering::SeqCst), 2);
        });
    }

    #[test]
    fn a_filesystem_that_becomes_read_only_is_noticed_and_a_read_only_mount_of_it_is_none() {
        let directory = tempdir().unwrap();
        let (target, proc_root) = (directory.path().join("disk"), directory.path().join("proc"));
        let bound = directory.path().join("bound");
        for made in [&target, &proc_root, &bound] {
            std::fs::create_dir(made).unwrap();
        }
        symlink("/proc/thread-self", proc_root.join("self")).unwrap();
        let name = "a_filesystem_that_becomes_read_only";
        with_tmpfs(name, target, 1024, move |target| {
            let none = None::<&str>;
            mount(Some(target), &bound, none, MsFlags::MS_BIND, none).unwrap();
            let only_the_mount = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            mount(none, &bound, none, only_the_mount, none).unwrap();
            let mut filesystems = Filesystems::new(nodefs(&bound), &proc_root);
            let mut seen = |second| {
                let mut found = None;
                filesystems.probe_all(at(second), |_, result, read_only| {
                    let ProbeResult::Space(space, _) = result else {
                        panic!("it is local");
                    };
                    found = Some((space.no_writes, read_only));
                });
                found.unwrap()
            };
            assert_eq!(seen(1), (true, false));
            let whole = MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
            mount(none, target, none, whole, none).unwrap();
            assert_eq!(seen(2), (true, true));
            mount(none, target, none, MsFlags::MS_REMOUNT, none).unwrap();
            assert_eq!(seen(3), (true, false));
            nix::mount::umount(&bound).unwrap();
        });
    }

    #[test]
    fn without_a_mount_table_to_watch_nothing_is_asked_in_place() {
        let directory = tempdir().unwrap();
        let (ask, asked) = counting();
        let mut filesystems =
            Filesystems::with_ask(ask, nodefs(directory.path()), directory.path());
        for second in 0..3 {
            answered(&mut filesystems, at(second));
        }
        assert_eq!(asked.load(Ordering::SeqCst), 3);
    }
}
