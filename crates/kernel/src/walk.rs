//! The disk usage of a directory: allocated bytes and inodes on its own filesystem, each hard-linked file counted
//! once.

mod kept;
mod largest;
mod project;

pub use kept::{KeptTree, KeptTrees};
pub use largest::LargestDirectories;
pub use project::ProjectUsage;

use kept::Record;
use largest::Largest;
use rustix::{
    fd::OwnedFd,
    fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat},
    io::Errno,
};
use std::{
    collections::HashSet,
    ffi::CStr,
    fmt,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

/// The deepest nesting that is followed; each level keeps a directory open.
const MAX_DEPTH: usize = 128;
/// How many hard-linked files are remembered, so that none counts twice; they take about 1 MiB.
const MAX_LINKED_FILES: usize = 64 * 1024;

/// Why a walk stopped before it was complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truncation {
    /// It took too long.
    Time,
    /// There were more entries than are counted for one pod.
    Entries,
    /// Directories are nested too deeply; those below the limit were left out.
    Depth,
    /// Too many files have more than one hard link.
    Links,
    /// Some part could not be read.
    Unreadable,
}

impl fmt::Display for Truncation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Time => "counting it took too long",
            Self::Entries => "it holds more files than are counted",
            Self::Depth => "its directories are nested too deeply",
            Self::Links => "too many of its files have several names",
            Self::Unreadable => "part of it could not be read",
        })
    }
}

/// The usage of a directory, including the directory itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Allocated on disk.
    pub bytes: i64,
    /// Each hard-linked file counts once.
    pub inodes: i64,
    /// The device number of the filesystem that it is on.
    pub device: u64,
    /// Why the figures are only a lower bound; `None` if they are exact.
    pub truncation: Option<Truncation>,
}

/// The limits of a walk; shared by the walks of one pod.
#[derive(Debug)]
pub struct Budget<'a> {
    /// How many entries may still be read.
    pub entries: u64,
    /// Set by the caller to stop the walk.
    pub stop: &'a AtomicBool,
}

impl DiskUsage {
    /// Walks a directory, or measures a single file; `None` if the path does not exist.
    pub fn of(path: &Path, budget: &mut Budget<'_>) -> Result<Option<Self>, Errno> {
        let Some(mut walk) = Walk::at(path)? else {
            return Ok(None);
        };
        walk.run(budget);
        Ok(Some(walk.counts.usage))
    }

    /// The same, with the directories below that hold most.
    pub fn with_largest(
        path: &Path,
        budget: &mut Budget<'_>,
    ) -> Result<Option<(Self, LargestDirectories)>, Errno> {
        let Some(mut walk) = Walk::at(path)? else {
            return Ok(None);
        };
        walk.largest = Some(Largest::default());
        walk.run(budget);
        let usage = walk.counts.usage;
        let largest = walk.largest.map(|largest| largest.finish(&usage));
        Ok(Some((usage, largest.unwrap_or_default())))
    }
}

struct Walk {
    device: u64,
    counts: Counts,
    /// The directories from the top to the one being read.
    open: Vec<Dir>,
    /// The size of each directory, where that is kept.
    record: Option<Record>,
    /// The directories that hold most, where they are asked for.
    largest: Option<Largest>,
}

impl Walk {
    /// A walk that has counted the top, and opened it if it is a directory; `None` if it does not exist.
    fn at(path: &Path) -> Result<Option<Self>, Errno> {
        // A host path may be a symbolic link; no link below it is followed.
        let top = match openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
            top => top?,
        };
        let stat = fstat(&top)?;
        let mut walk = Self {
            device: stat.st_dev,
            counts: Counts::default(),
            open: Vec::new(),
            record: None,
            largest: None,
        };
        walk.counts.usage.device = stat.st_dev;
        walk.counts.count(&stat);
        if is_directory(&stat) {
            walk.open.push(directory(&top, c".")?);
        }
        Ok(Some(walk))
    }

    fn run(&mut self, budget: &mut Budget<'_>) {
        while let Some(innermost) = self.open.last_mut() {
            let entry = match innermost.read() {
                Some(Ok(entry)) => entry,
                finished => {
                    // A directory that fails in the middle is left with what it has shown so far.
                    if finished.is_some() {
                        self.counts.usage.truncation = Some(Truncation::Unreadable);
                    }
                    self.open.pop();
                    if let Some(record) = &mut self.record {
                        record.leave();
                    }
                    if let Some(largest) = &mut self.largest {
                        largest.leave(&self.counts.usage);
                    }
                    continue;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if let Err(truncation) = budget.take_entry().and_then(|()| self.counts.check_links()) {
                self.counts.usage.truncation = Some(truncation);
                return;
            }
            match self.enter(name) {
                // The entry was deleted meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(_) => self.counts.usage.truncation = Some(Truncation::Unreadable),
            }
        }
    }

    /// Counts one entry of the innermost directory, and opens it if it is a directory.
    fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let Some(innermost) = self.open.last() else {
            return Ok(());
        };
        let innermost = innermost.fd()?;
        let stat = statat(innermost, name, AtFlags::SYMLINK_NOFOLLOW)?;
        // Another filesystem is mounted here, whose space is not that of this directory.
        if stat.st_dev != self.device {
            return Ok(());
        }
        let before = self.counts.usage;
        self.counts.count(&stat);
        if !is_directory(&stat) {
            if let Some(record) = &mut self.record {
                record.add(&stat);
            }
            return Ok(());
        }
        if self.open.len() >= MAX_DEPTH {
            self.counts.usage.truncation = Some(Truncation::Depth);
            return Ok(());
        }
        let below = directory(innermost, name)?;
        if let Some(record) = &mut self.record {
            record.enter(name, below.fd()?, &stat);
        }
        if let Some(largest) = &mut self.largest {
            largest.enter(name, &before);
        }
        self.open.push(below);
        Ok(())
    }
}

impl Budget<'_> {
    fn take_entry(&mut self) -> Result<(), Truncation> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Truncation::Time);
        }
        self.entries = self.entries.checked_sub(1).ok_or(Truncation::Entries)?;
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Counts {
    usage: DiskUsage,
    /// Inodes with more than one hard link.
    linked: HashSet<u64>,
}

impl Counts {
    fn check_links(&self) -> Result<(), Truncation> {
        if self.linked.len() < MAX_LINKED_FILES {
            Ok(())
        } else {
            Err(Truncation::Links)
        }
    }

    /// Adds an inode, unless it was added under another name.
    fn count(&mut self, stat: &Stat) {
        // A file with several names takes its space once.
        if !is_directory(stat) && stat.st_nlink > 1 && !self.linked.insert(stat.st_ino) {
            return;
        }
        self.usage.bytes = self.usage.bytes.saturating_add(allocated(stat));
        self.usage.inodes += 1;
    }
}

/// Bytes on the disk; a sparse file has fewer than its length.
fn allocated(stat: &Stat) -> i64 {
    stat.st_blocks.saturating_mul(512)
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode).is_dir()
}

fn directory(parent: impl rustix::fd::AsFd, name: &CStr) -> Result<Dir, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened: OwnedFd = openat(parent, name, flags, Mode::empty())?;
    Dir::new(opened)
}

#[cfg(test)]
mod tests;
