//! File descriptors kept in reserve for a kill at a time when no file can be opened any more.

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Mutex, PoisonError};

/// As many as one kill has open at a time: the pod's directories in three hierarchies, a path down through its
/// cgroups, a file, a process.
const SPARE: usize = 16;

/// A reserve of open files without a purpose of their own. They are closed for a kill if this process or the whole
/// machine has reached its limit of open files. They are opened again after the kill.
#[derive(Debug, Default)]
pub struct SpareFiles(Mutex<Vec<OwnedFd>>);

impl SpareFiles {
    /// A full reserve, or as much of it as can be opened.
    pub fn filled() -> Self {
        let spare = Self::default();
        spare.refill();
        spare
    }

    pub(super) fn refill(&self) {
        let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while files.len() < SPARE {
            let flags = OFlags::RDONLY | OFlags::CLOEXEC;
            let Ok(file) = openat(CWD, "/dev/null", flags, Mode::empty()) else {
                return;
            };
            files.push(file);
        }
    }

    /// Closes the reserve if the error is that no more files can be opened.
    pub(super) fn release_if_exhausted(&self, error: &(dyn Error + 'static)) {
        let mut chain = std::iter::successors(Some(error), |error: &&(dyn Error + 'static)| {
            (*error).source()
        });
        let exhausted = chain.any(|error| {
            let code = error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::raw_os_error);
            [Errno::MFILE, Errno::NFILE]
                .iter()
                .any(|errno| code == Some(errno.raw_os_error()))
        });
        if exhausted {
            let mut files = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            files.clear();
        }
    }
}
