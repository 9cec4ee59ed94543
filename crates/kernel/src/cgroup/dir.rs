//! The directory of a cgroup, held open.
//!
//! Everything below it is opened relative to its descriptor, one name at a time: processes in a pod may create
//! cgroups whose names are not UTF-8, nested more deeply than any path can express.

use super::CgroupError;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::CLOEXEC);
/// Paths in messages are cut at this many bytes, because cgroups may be nested far deeper.
const LONGEST_NAME: usize = 4096;

/// The directory of one cgroup in one hierarchy. If the cgroup is removed and created again under the same name,
/// this still refers to the removed one and never shows the new one.
#[derive(Debug)]
pub(crate) struct GroupDir {
    fd: OwnedFd,
    /// For messages only.
    path: PathBuf,
}

impl GroupDir {
    /// Opens a directory. If it does not exist, [`CgroupError::is_gone`] is true for the error.
    pub(crate) fn open(path: &Path) -> Result<Self, CgroupError> {
        let opened = openat(CWD, path, DIRECTORY, Mode::empty());
        Self::opened(opened, path.to_owned())
    }

    /// Opens the cgroup of this name directly below.
    pub(crate) fn child(&self, name: &OsStr) -> Result<Self, CgroupError> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let opened = openat(&self.fd, name, flags, Mode::empty());
        let mut path = self.path.clone();
        if path.as_os_str().len() < LONGEST_NAME {
            path.push(name);
        }
        Self::opened(opened, path)
    }

    fn opened(opened: rustix::io::Result<OwnedFd>, path: PathBuf) -> Result<Self, CgroupError> {
        match opened {
            Ok(fd) => Ok(Self { fd, path }),
            Err(errno) => Err(CgroupError::Read {
                path,
                source: errno.into(),
            }),
        }
    }

    /// Its path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    fn file(&self, name: &str, flags: OFlags) -> io::Result<File> {
        let opened = openat(&self.fd, name, flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(File::from(opened))
    }

    /// Opens one of its files for reading.
    pub(crate) fn to_read(&self, name: &str) -> io::Result<File> {
        self.file(name, OFlags::RDONLY)
    }

    /// Reads one of its files as a whole.
    pub(crate) fn read(&self, name: &str) -> Result<Vec<u8>, CgroupError> {
        let mut text = Vec::new();
        let read = self.to_read(name);
        match read.and_then(|mut file| file.read_to_end(&mut text)) {
            Ok(_) => Ok(text),
            Err(source) => Err(self.failed(name, source)),
        }
    }

    /// Writes to one of its files. Never creates a file: a cgroup file that does not exist is a feature that the
    /// kernel lacks.
    pub(crate) fn write(&self, name: &str, value: &[u8]) -> io::Result<()> {
        self.file(name, OFlags::WRONLY)?.write_all(value)
    }

    /// Whether this file exists; false if that cannot be determined.
    pub(crate) fn has(&self, name: &str) -> bool {
        statat(&self.fd, name, AtFlags::empty()).is_ok()
    }

    fn failed(&self, name: &str, source: io::Error) -> CgroupError {
        CgroupError::Read {
            path: self.path.join(name),
            source,
        }
    }

    /// The names of the cgroups directly below, sorted.
    pub(crate) fn children(&self) -> Result<Vec<OsString>, CgroupError> {
        let failed = |errno: rustix::io::Errno| CgroupError::Read {
            path: self.path.clone(),
            source: errno.into(),
        };
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.fd).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if entry.file_type() == FileType::Directory && !matches!(name, b"." | b"..") {
                names.push(OsString::from_vec(name.to_vec()));
            }
        }
        // The kernel has no order of its own, and the same state shall give the same result.
        names.sort_unstable();
        Ok(names)
    }

    /// Visits this cgroup and every cgroup below it. After a failure it continues with the rest and returns the
    /// first error at the end. Cgroups that disappear meanwhile are skipped without an error.
    pub(crate) fn walk(
        &self,
        mut visit: impl FnMut(&Self) -> Result<(), CgroupError>,
    ) -> Result<(), CgroupError> {
        let mut outcome = visit(self);
        let mut stack = match self.children() {
            Ok(names) => vec![(None, names.into_iter())],
            Err(error) => {
                outcome = outcome.and(Err(error));
                Vec::new()
            }
        };
        // A loop, not recursion: a pod may nest its cgroups deeper than the stack allows.
        while let Some((dir, names)) = stack.last_mut() {
            let Some(name) = names.next() else {
                stack.pop();
                continue;
            };
            let child = match dir.as_ref().unwrap_or(self).child(&name) {
                Ok(child) => child,
                Err(error) => {
                    outcome = outcome.and(ignore_removed(error));
                    continue;
                }
            };
            outcome = outcome.and(visit(&child).or_else(ignore_removed));
            match child.children() {
                Ok(names) => stack.push((Some(child), names.into_iter())),
                Err(error) => outcome = outcome.and(ignore_removed(error)),
            }
        }
        outcome
    }

    /// The ids of all processes in this cgroup and below, sorted, without duplicates, and the first read error. The
    /// id 0 stands for a process in a pid namespace that is not visible from here.
    pub(crate) fn processes(&self) -> (Vec<u32>, Result<(), CgroupError>) {
        let mut pids = Vec::new();
        let outcome = self.walk(|group| group.collect_own(&mut pids));
        pids.sort_unstable();
        pids.dedup();
        (pids, outcome)
    }

    fn collect_own(&self, pids: &mut Vec<u32>) -> Result<(), CgroupError> {
        const LIST: &str = "cgroup.procs";
        let list = match self.read(LIST) {
            // The processes of a threaded cgroup are listed in the cgroup above it.
            Err(CgroupError::Read { source, .. }) if source.kind() == ErrorKind::Unsupported => {
                return Ok(());
            }
            list => list?,
        };
        let mut outcome = Ok(());
        for line in list
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
        {
            let line = String::from_utf8_lossy(line);
            match line.parse() {
                Ok(pid) => pids.push(pid),
                Err(_) => {
                    outcome = Err(CgroupError::Malformed {
                        path: self.path.join(LIST),
                        line: line.into_owned(),
                    });
                }
            }
        }
        outcome
    }

    /// Whether a live process is in it or below, according to the kernel's `cgroup.events`; `None` where there is
    /// no such file, as on cgroup v1.
    pub(crate) fn is_populated(&self) -> Option<bool> {
        let events = self.read("cgroup.events").ok()?;
        let events = String::from_utf8_lossy(&events);
        let value = events
            .lines()
            .find_map(|line| line.strip_prefix("populated "))?;
        match value.trim() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// How many processes and threads the kernel counts in it and below, zombies included; `None` if the count is
    /// not available.
    pub(crate) fn pids_current(&self) -> Option<u64> {
        let text = self.read("pids.current").ok()?;
        String::from_utf8_lossy(&text).trim().parse().ok()
    }
}

/// Drops the error of a cgroup below if that cgroup has been removed.
fn ignore_removed(error: CgroupError) -> Result<(), CgroupError> {
    if error.is_gone() { Ok(()) } else { Err(error) }
}
