//! A small text file of the kernel that is read repeatedly without allocation.

use nix::errno::Errno;
use nix::sys::statfs::{CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC, PROC_SUPER_MAGIC, fstatfs};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Large enough for the longest file read here (`memory.stat`, under 3 KiB today).
pub type Buffer = [u8; 16 * 1024];

/// Why a source could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system refused to open or read it.
    #[error("cannot read {}: {source}", path.display())]
    Io {
        /// The file that was read.
        path: Arc<Path>,
        /// The error of the system call.
        source: io::Error,
    },
    /// The content differs from the kernel's format.
    #[error("{} does not hold {expected}", path.display())]
    Malformed {
        /// The file that was read.
        path: Arc<Path>,
        /// The kernel's format, in a few words for the message.
        expected: &'static str,
    },
}

impl ReadError {
    /// Whether the file does not exist, or its cgroup was removed.
    pub fn is_missing(&self) -> bool {
        let Self::Io { source, .. } = self else {
            return false;
        };
        source.kind() == io::ErrorKind::NotFound
            || source.raw_os_error() == Some(Errno::ENODEV as i32)
    }
}

/// A file that is kept open and read in every cycle; after any error it is opened again.
#[derive(Debug)]
pub struct KernelFile {
    path: Arc<Path>,
    /// Only a file on one of the kernel's own file systems stays open, because it stays the same file. Any other
    /// (`lxcfs` mounted over /proc/meminfo) may be replaced, and is opened for every read.
    open: Option<File>,
}

impl KernelFile {
    /// For the file at `path`, which is not opened yet.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path: path.into(),
            open: None,
        }
    }

    /// Whether it is open, so that the next read need not open it.
    pub fn is_open(&self) -> bool {
        self.open.is_some()
    }

    /// Closes the file until the next read, for callers with too many files to keep them all open.
    pub fn close(&mut self) {
        self.open = None;
    }

    /// Reads the whole file and passes it to `parse`, which returns `None` if the content is not as `expected`.
    pub fn read<T>(
        &mut self,
        buffer: &mut Buffer,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, ReadError> {
        let (length, file) = self.fill(buffer).map_err(|source| ReadError::Io {
            path: Arc::clone(&self.path),
            source,
        })?;
        let value = buffer
            .get(..length)
            // A full buffer may have cut the text, and a cut number is a wrong one.
            .filter(|content| content.len() < buffer.len())
            .and_then(|content| str::from_utf8(content).ok())
            .and_then(parse)
            .ok_or_else(|| ReadError::Malformed {
                path: Arc::clone(&self.path),
                expected,
            })?;
        self.open = file;
        Ok(value)
    }

    /// Reads into the buffer; returns the length, and the file if it may stay open.
    fn fill(&mut self, buffer: &mut Buffer) -> io::Result<(usize, Option<File>)> {
        if let Some(file) = self.open.take()
            && let Ok(length) = file.read_at(buffer, 0)
        {
            return Ok((length, Some(file)));
        }
        // Not opened yet, or its cgroup was removed; a new cgroup of that name may exist by now.
        let file = File::open(&self.path)?;
        let length = file.read_at(buffer, 0)?;
        let kind = fstatfs(&file)?.filesystem_type();
        let kernels_own = [PROC_SUPER_MAGIC, CGROUP_SUPER_MAGIC, CGROUP2_SUPER_MAGIC];
        Ok((length, kernels_own.contains(&kind).then_some(file)))
    }
}

/// The number in a file that contains nothing else. `max`, the kernel's word for "no limit", becomes the largest
/// number.
pub fn number_or_max(text: &str) -> Option<u64> {
    match text.trim_ascii_end() {
        "max" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read(file: &mut KernelFile) -> Result<u64, ReadError> {
        file.read(&mut [0; 16 * 1024], "a number", number_or_max)
    }

    #[test]
    fn reads_the_kernels_files_again_and_again() {
        let mut file = KernelFile::new("/proc/sys/kernel/pid_max".into());
        let first = read(&mut file).unwrap();
        assert!(file.open.is_some());
        assert_eq!(read(&mut file).unwrap(), first);
    }

    #[test]
    fn a_file_that_is_missing_malformed_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("limit");
        let mut file = KernelFile::new(path.clone());
        let error = read(&mut file).unwrap_err().to_string();
        assert!(error.starts_with(&format!("cannot read {}: ", path.display())));

        let too_long = "1".repeat(16 * 1024);
        for rubbish in [
            b"".as_slice(),
            b"-1",
            b"1 2",
            b"\xff\xfe",
            too_long.as_bytes(),
        ] {
            fs::write(&path, rubbish).unwrap();
            let error = read(&mut file).unwrap_err().to_string();
            assert_eq!(error, format!("{} does not hold a number", path.display()));
        }
        fs::write(&path, "max\n").unwrap();
        assert_eq!(read(&mut file).unwrap(), u64::MAX);

        fs::remove_file(&path).unwrap();
        assert!(matches!(read(&mut file), Err(ReadError::Io { .. })));
        fs::write(&path, "7\n").unwrap();
        assert_eq!(read(&mut file).unwrap(), 7);
    }
}
