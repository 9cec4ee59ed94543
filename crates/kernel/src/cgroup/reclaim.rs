//! Asks the kernel to reclaim memory of a cgroup (`memory.reclaim`, cgroup v2, Linux 5.19).

use super::{Controller, Hierarchies};
use nix::errno::Errno;
use std::{fs::OpenOptions, io, io::Write, path::Path};

/// The result of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reclaim {
    /// As much as was asked for was reclaimed.
    All,
    /// The kernel found less.
    Less,
}

impl Hierarchies {
    /// Reclaims so many bytes of the cgroup. It takes as long as the kernel needs to look through so much memory.
    ///
    /// # Errors The error of opening or writing the file; `Less` is no error.
    pub fn reclaim_memory(&self, relative: &Path, bytes: u64) -> io::Result<Reclaim> {
        let dir = self.dir(Controller::Memory, relative);
        let dir = dir.ok_or(io::ErrorKind::NotFound)?;
        // It is never created: in a plain directory that would be a file without a reader.
        let mut file = OpenOptions::new()
            .write(true)
            .open(dir.join("memory.reclaim"))?;
        match file.write_all(bytes.to_string().as_bytes()) {
            Ok(()) => Ok(Reclaim::All),
            Err(error) if error.raw_os_error() == Some(Errno::EAGAIN as i32) => Ok(Reclaim::Less),
            Err(error) => Err(error),
        }
    }
}
