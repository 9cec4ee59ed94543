//! How much a directory holds: allocated bytes and inodes, on its own filesystem only, hard links once.

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

/// Each level keeps a directory open.
const DEEPEST: usize = 128;
/// Remembered so that none counts twice; 1 MiB or so.
const MOST_LINKED_FILES: usize = 64 * 1024;

/// Why a walk ended before its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// It took too long.
    Time,
    /// There was more than is counted for one pod.
    Entries,
    /// Directories are nested too deeply; those below were left out.
    Depth,
    /// Too many files have several names.
    Links,
    /// Some part could not be read.
    Unreadable,
}

impl fmt::Display for Cut {
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

/// What a directory holds, itself included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Held {
    /// On the disk.
    pub bytes: i64,
    /// Each linked file once.
    pub inodes: i64,
    /// Why it is at least this; None if it is exactly this.
    pub cut: Option<Cut>,
}

/// What a walk may take; shared by the walks of one pod.
#[derive(Debug)]
pub struct Budget<'a> {
    /// How many entries may still be read.
    pub entries: u64,
    /// Set by whoever has no more time.
    pub stop: &'a AtomicBool,
}

/// Walks a directory, or looks at a single file; None if there is nothing of that name.
pub fn walk(path: &Path, budget: &mut Budget<'_>) -> Result<Option<Held>, Errno> {
    // A host path may be a link; nothing below it is followed.
    let top = match openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()) {
        Err(Errno::NOENT | Errno::NOTDIR) => return Ok(None),
        top => top?,
    };
    let stat = fstat(&top)?;
    let mut walk = Walk {
        device: stat.st_dev,
        tally: Tally::default(),
        open: Vec::new(),
    };
    walk.tally.count(&stat);
    if is_directory(&stat) {
        walk.open.push(directory(&top, c".")?);
        walk.run(budget);
    }
    Ok(Some(walk.tally.held))
}

struct Walk {
    device: u64,
    tally: Tally,
    /// From the top to the directory that is being read.
    open: Vec<Dir>,
}

impl Walk {
    fn run(&mut self, budget: &mut Budget<'_>) {
        while let Some(innermost) = self.open.last_mut() {
            let entry = match innermost.read() {
                Some(Ok(entry)) => entry,
                finished => {
                    if finished.is_some() {
                        self.tally.held.cut = Some(Cut::Unreadable);
                    }
                    self.open.pop();
                    continue;
                }
            };
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            if let Err(cut) = budget.take().and_then(|()| self.tally.has_room()) {
                self.tally.held.cut = Some(cut);
                return;
            }
            match self.enter(name) {
                // It was deleted meanwhile.
                Ok(()) | Err(Errno::NOENT) => {}
                Err(_) => self.tally.held.cut = Some(Cut::Unreadable),
            }
        }
    }

    /// Counts one entry of the innermost directory, and opens it if it is a directory itself.
    fn enter(&mut self, name: &CStr) -> Result<(), Errno> {
        let Some(innermost) = self.open.last() else {
            return Ok(());
        };
        let innermost = innermost.fd()?;
        let stat = statat(innermost, name, AtFlags::SYMLINK_NOFOLLOW)?;
        if stat.st_dev != self.device {
            return Ok(());
        }
        self.tally.count(&stat);
        if !is_directory(&stat) {
            return Ok(());
        }
        if self.open.len() >= DEEPEST {
            self.tally.held.cut = Some(Cut::Depth);
            return Ok(());
        }
        let below = directory(innermost, name)?;
        self.open.push(below);
        Ok(())
    }
}

impl Budget<'_> {
    fn take(&mut self) -> Result<(), Cut> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Cut::Time);
        }
        self.entries = self.entries.checked_sub(1).ok_or(Cut::Entries)?;
        Ok(())
    }
}

#[derive(Debug, Default)]
struct Tally {
    held: Held,
    /// Inodes with several names.
    linked: HashSet<u64>,
}

impl Tally {
    fn has_room(&self) -> Result<(), Cut> {
        if self.linked.len() < MOST_LINKED_FILES {
            Ok(())
        } else {
            Err(Cut::Links)
        }
    }

    /// Adds an inode, unless it was added under another name.
    fn count(&mut self, stat: &Stat) {
        if !is_directory(stat) && stat.st_nlink > 1 && !self.linked.insert(stat.st_ino) {
            return;
        }
        let allocated = stat.st_blocks.saturating_mul(512);
        self.held.bytes = self.held.bytes.saturating_add(allocated);
        self.held.inodes += 1;
    }
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
