//! Usage of directories that are walked once, and after that only where the kernel reports a change.
//!
//! A file that grows in place changes neither a name nor the time of its directory, so times alone would miss it. The
//! kernel reports writes, truncations and changed names by inotify. It does not report writes through a mapping or
//! through a name in another directory. So a tree with hard links is not kept, and every tree is walked again after ten
//! minutes. A caller that must be certain walks by itself.

use super::{Budget, DiskUsage, Walk, allocated, directory, is_directory};
use jiff::{SignedDuration, Timestamp};
use rustix::{
    fd::{AsRawFd, BorrowedFd, OwnedFd},
    fs::{AtFlags, CWD, Mode, OFlags, Stat, fstat, inotify, openat, statat},
    io::Errno,
};
use std::{
    collections::HashMap,
    ffi::{CStr, CString},
    mem::MaybeUninit,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The most directories that are watched. Each costs about 1 KiB of the kernel's memory.
const MAX_DIRECTORIES: usize = 16 * 1024;
/// After this time a tree is walked again, because some writes are not reported.
const MAX_AGE: SignedDuration = SignedDuration::from_mins(10);
/// The size of a read; events are shorter than 300 bytes.
const EVENTS: usize = 16 * 1024;

/// Keeps the usage of directories. Its trees are measured elsewhere, as a filesystem may hang.
#[derive(Debug)]
pub struct KeptTrees {
    events: Arc<OwnedFd>,
    trees: HashMap<PathBuf, KeptTree>,
    /// The tree and the index of its directory, by the watch.
    watches: HashMap<i32, (u64, u32)>,
    next_id: u64,
}

/// The usage of one directory, kept from walk to walk.
#[derive(Debug)]
pub struct KeptTree {
    path: PathBuf,
    events: Arc<OwnedFd>,
    /// The most directories that it may watch.
    room: usize,
    id: u64,
    device: u64,
    directories: Vec<Directory>,
    /// When all of it was last walked; `None` if it must be.
    walked: Option<Timestamp>,
    /// When it was found that it cannot be kept.
    given_up: Option<Timestamp>,
    used: bool,
}

/// The size of one directory, without the directories in it.
#[derive(Debug)]
struct Directory {
    parent: u32,
    name: CString,
    inode: u64,
    watch: i32,
    bytes: i64,
    inodes: i64,
    changed: bool,
}

impl KeptTrees {
    /// Keeps nothing yet.
    ///
    /// # Errors
    /// The kernel gives no inotify instance (`fs.inotify.max_user_instances`).
    pub fn new() -> Result<Self, Errno> {
        let flags = inotify::CreateFlags::NONBLOCK | inotify::CreateFlags::CLOEXEC;
        Ok(Self {
            events: Arc::new(inotify::init(flags)?),
            trees: HashMap::new(),
            watches: HashMap::new(),
            next_id: 0,
        })
    }

    /// Applies the kernel's reports since the last call. Call it before trees are taken: reports about a tree that is
    /// away are lost.
    pub fn update(&mut self) {
        let mut places: HashMap<u64, &mut KeptTree> = self
            .trees
            .values_mut()
            .map(|tree| (tree.id, tree))
            .collect();
        let mut buffer = [MaybeUninit::uninit(); EVENTS];
        let mut reader = inotify::Reader::new(&*self.events, &mut buffer);
        while let Ok(event) = reader.next() {
            use inotify::ReadFlags as Flags;
            let flags = event.events();
            // Events were lost, and nothing says of which directory, so all trees are read anew.
            if flags.contains(Flags::QUEUE_OVERFLOW) {
                for tree in places.values_mut() {
                    tree.walked = None;
                }
                continue;
            }
            let Some((id, directory)) = self.watches.get(&event.wd()) else {
                continue;
            };
            let Some(tree) = places.get_mut(id) else {
                continue;
            };
            let gone = Flags::DELETE_SELF | Flags::MOVE_SELF | Flags::UNMOUNT | Flags::IGNORED;
            // A directory came, went or moved: the shape of the tree is no longer known.
            if flags.intersects(gone | Flags::ISDIR) {
                tree.walked = None;
            } else if let Some(directory) = tree.directories.get_mut(*directory as usize) {
                directory.changed = true;
            }
        }
    }

    /// The tree of this directory, to be measured and put back.
    pub fn take(&mut self, path: &Path) -> KeptTree {
        let known = self.trees.remove(path);
        let watched: usize = self.trees.values().map(|tree| tree.directories.len()).sum();
        let mut tree = known.unwrap_or_else(|| KeptTree {
            path: path.to_owned(),
            events: Arc::clone(&self.events),
            room: 0,
            id: u64::MAX,
            device: 0,
            directories: Vec::new(),
            walked: None,
            given_up: None,
            used: true,
        });
        // Watches are a resource of the user, shared with every other program of root.
        tree.room = MAX_DIRECTORIES.saturating_sub(watched);
        tree
    }

    /// Keeps a tree that was measured.
    pub fn put(&mut self, mut tree: KeptTree) {
        if tree.id == u64::MAX {
            tree.id = self.next_id;
            self.next_id += 1;
            let watches = tree.directories.iter().zip(0..);
            let watches = watches.map(|(directory, index)| (directory.watch, (tree.id, index)));
            self.watches.extend(watches);
        }
        tree.used = true;
        self.trees.insert(tree.path.clone(), tree);
    }

    /// Ends the watches of the trees that were not taken since the last call.
    pub fn forget_unused(&mut self) {
        self.trees
            .retain(|_, tree| std::mem::replace(&mut tree.used, false));
        let known: Vec<u64> = self.trees.values().map(|tree| tree.id).collect();
        self.watches.retain(|_, (id, _)| known.contains(id));
    }
}

impl KeptTree {
    /// The usage now; `None` if there is no such directory. A tree that cannot be kept is walked each time.
    pub fn measure(
        &mut self,
        now: Timestamp,
        budget: &mut Budget<'_>,
    ) -> Result<Option<DiskUsage>, Errno> {
        let recent = |at: Option<Timestamp>| at.is_some_and(|at| now.duration_since(at) < MAX_AGE);
        if recent(self.walked)
            && let Ok(usage) = self.follow(budget)
        {
            return Ok(Some(usage));
        }
        self.clear();
        // To keep it failed a short while ago, and each try needs memory.
        if recent(self.given_up) {
            return DiskUsage::of(&self.path, budget);
        }
        let Some(mut counting) = Walk::at(&self.path)? else {
            return Ok(None);
        };
        let Some(top) = counting.open.last() else {
            return Ok(Some(counting.counts.usage));
        };
        let top = top.fd()?;
        let mut record = Record::new(Arc::clone(&self.events), self.room);
        record.enter(c"", top, &fstat(top)?);
        counting.record = Some(record);
        counting.run(budget);
        let Walk { counts, record, .. } = counting;
        if let Some(record) = record {
            self.directories = record.directories;
            // A file with several links counts once, which only a walk of the whole tree knows.
            if record.complete && counts.linked.is_empty() && counts.usage.truncation.is_none() {
                self.device = counting.device;
                self.walked = Some(now);
            } else {
                self.clear();
                self.given_up = Some(now);
            }
        }
        Ok(Some(counts.usage))
    }

    /// Reads the directories with changes again. An error if the kept sizes are not enough for that.
    fn follow(&mut self, budget: &mut Budget<'_>) -> Result<DiskUsage, Errno> {
        let changed = self.directories.iter().zip(0_u32..);
        let changed: Vec<u32> = changed
            .filter(|(directory, _)| directory.changed)
            .map(|(_, index)| index)
            .collect();
        for index in changed {
            let (bytes, inodes) = self.read_again(index, budget)?;
            let directory = &mut self.directories[index as usize];
            // Blocks may be allocated some time after the write, so it is read until it stays the same.
            directory.changed = (directory.bytes, directory.inodes) != (bytes, inodes);
            (directory.bytes, directory.inodes) = (bytes, inodes);
        }
        let mut usage = DiskUsage {
            device: self.device,
            ..DiskUsage::default()
        };
        for directory in &self.directories {
            usage.bytes = usage.bytes.saturating_add(directory.bytes);
            usage.inodes += directory.inodes;
        }
        Ok(usage)
    }

    /// Bytes and inodes of one directory without the directories in it.
    fn read_again(&self, index: u32, budget: &mut Budget<'_>) -> Result<(i64, i64), Errno> {
        let mut directory = directory(self.open(index)?, c".")?;
        let stat = fstat(directory.fd()?)?;
        if (stat.st_dev, stat.st_ino) != (self.device, self.directories[index as usize].inode) {
            // Another directory has the name now.
            return Err(Errno::STALE);
        }
        let (mut bytes, mut inodes) = (allocated(&stat), 1);
        while let Some(entry) = directory.read() {
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            budget.take_entry().map_err(|_| Errno::AGAIN)?;
            let stat = match statat(directory.fd()?, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => continue,
                stat => stat?,
            };
            if stat.st_dev != self.device || is_directory(&stat) {
                continue;
            }
            if stat.st_nlink > 1 {
                return Err(Errno::MLINK);
            }
            bytes = allocated(&stat).saturating_add(bytes);
            inodes += 1;
        }
        Ok((bytes, inodes))
    }

    /// Opens it from the top, because its names may be longer than a path may be.
    fn open(&self, index: u32) -> Result<OwnedFd, Errno> {
        let mut names = Vec::new();
        let mut at = index as usize;
        while at != 0 {
            names.push(&*self.directories[at].name);
            at = self.directories[at].parent as usize;
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = openat(CWD, &self.path, flags, Mode::empty())?;
        names.iter().rev().try_fold(top, |above, name| {
            openat(above, *name, flags | OFlags::NOFOLLOW, Mode::empty())
        })
    }

    /// Ends all watches.
    fn clear(&mut self) {
        for directory in self.directories.drain(..) {
            // The kernel has ended the watch of a deleted directory.
            let _ = inotify::remove_watch(&*self.events, directory.watch);
        }
        self.walked = None;
        self.id = u64::MAX;
    }
}

impl Drop for KeptTree {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The directories of a tree as a walk finds them, each watched before it is read.
#[derive(Debug)]
pub(super) struct Record {
    events: Arc<OwnedFd>,
    room: usize,
    directories: Vec<Directory>,
    /// The indices of the directories from the top to the one being read.
    open: Vec<u32>,
    /// Whether all of them are watched.
    complete: bool,
}

impl Record {
    fn new(events: Arc<OwnedFd>, room: usize) -> Self {
        Self {
            events,
            room,
            directories: Vec::new(),
            open: Vec::new(),
            complete: true,
        }
    }

    pub(super) fn enter(&mut self, name: &CStr, opened: BorrowedFd<'_>, stat: &Stat) {
        if !self.complete {
            return;
        }
        let index = u32::try_from(self.directories.len()).unwrap_or(u32::MAX);
        let Some(watch) = self.watch(opened) else {
            self.complete = false;
            return;
        };
        self.directories.push(Directory {
            parent: self.open.last().copied().unwrap_or(0),
            name: name.into(),
            inode: stat.st_ino,
            watch,
            bytes: allocated(stat),
            inodes: 1,
            changed: false,
        });
        self.open.push(index);
    }

    /// `None` if there are too many, or if another tree watches the same directory.
    fn watch(&self, opened: BorrowedFd<'_>) -> Option<i32> {
        use inotify::WatchFlags as Flags;
        if self.directories.len() >= self.room {
            return None;
        }
        let names = Flags::CREATE | Flags::DELETE | Flags::MOVE;
        let itself = Flags::DELETE_SELF | Flags::MOVE_SELF;
        let how = Flags::EXCL_UNLINK | Flags::MASK_CREATE | Flags::ONLYDIR;
        let path = format!("/proc/self/fd/{}", opened.as_raw_fd());
        let flags = Flags::MODIFY | names | itself | how;
        inotify::add_watch(&*self.events, path, flags).ok()
    }

    pub(super) fn leave(&mut self) {
        if self.complete {
            self.open.pop();
        }
    }

    /// Counts a file of the directory that is being read.
    pub(super) fn add(&mut self, stat: &Stat) {
        if !self.complete {
            return;
        }
        let innermost = self.open.last().copied().unwrap_or(0);
        if let Some(directory) = self.directories.get_mut(innermost as usize) {
            directory.bytes = directory.bytes.saturating_add(allocated(stat));
            directory.inodes += 1;
        }
    }
}

#[cfg(test)]
mod tests;
