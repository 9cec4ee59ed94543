//! Asks the kernel to reclaim memory of a cgroup (`memory.reclaim`, cgroup v2, Linux 5.19).

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

impl Reclaim {
    /// Reclaims so many bytes of the cgroup at `dir`.
    pub(super) fn request(dir: &Path, bytes: u64) -> io::Result<Self> {
        // It is never created: in a plain directory that would be a file without a reader.
        let mut file = OpenOptions::new()
            .write(true)
            .open(dir.join("memory.reclaim"))?;
        match file.write_all(bytes.to_string().as_bytes()) {
            Ok(()) => Ok(Self::All),
            Err(error) if error.raw_os_error() == Some(Errno::EAGAIN as i32) => Ok(Self::Less),
            Err(error) => Err(error),
        }
    }
}
