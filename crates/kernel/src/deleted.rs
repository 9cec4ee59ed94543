//! Files that are deleted but still open: they keep their blocks, and no walk and no `du` finds them.
//!
//! The descriptors of other users' processes can be read by root and with `CAP_SYS_PTRACE` only. A process whose
//! descriptors may not be read is counted, so that it can be said that files may be missing.

use nix::sys::statfs::{OVERLAYFS_SUPER_MAGIC, statfs};
use std::{
    collections::HashSet,
    fs, io,
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
};

/// The suffix that the kernel appends to the name of a deleted file.
const DELETED: &[u8] = b" (deleted)";
/// The most descriptors that are looked at.
const MAX_DESCRIPTORS: usize = 200_000;

/// A file without a name that a process holds open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeletedFile {
    /// The device number of its filesystem; in a container's own layer that of the overlay.
    pub device: u64,
    /// Its inode number.
    pub inode: u64,
    /// Whether it is in an overlay, as the files of a container's own layer are.
    pub in_overlay: bool,
    /// Allocated on disk.
    pub bytes: i64,
    /// The cgroups of the first process that was found to hold it, relative to the roots of their hierarchies.
    pub cgroups: Vec<PathBuf>,
}

/// The deleted files that are open now.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletedFiles {
    /// Each file once, however many processes hold it.
    pub files: Vec<DeletedFile>,
    /// Processes whose descriptors may not be read.
    pub hidden_processes: usize,
    /// Whether there were too many descriptors, or the time was over.
    pub truncated: bool,
}

impl DeletedFiles {
    /// Looks at every descriptor of every process, until `stop` is set. May hang where a filesystem does not answer.
    ///
    /// # Errors
    /// `/proc` cannot be listed.
    pub fn look_for(proc_root: &Path, stop: &AtomicBool) -> io::Result<Self> {
        let mut found = Self::default();
        let mut seen = HashSet::new();
        let mut descriptors = 0_usize;
        for process in fs::read_dir(proc_root)?.flatten() {
            let name = process.file_name();
            if !name.as_bytes().iter().all(u8::is_ascii_digit) {
                continue;
            }
            let process = process.path();
            let open = match fs::read_dir(process.join("fd")) {
                Ok(open) => open,
                Err(error) => {
                    // A process that has just ended is no gap, one that may not be looked into is.
                    let hidden = error.kind() == io::ErrorKind::PermissionDenied;
                    found.hidden_processes += usize::from(hidden);
                    continue;
                }
            };
            for descriptor in open.flatten() {
                descriptors += 1;
                if descriptors > MAX_DESCRIPTORS || stop.load(Ordering::Relaxed) {
                    found.truncated = true;
                    return Ok(found);
                }
                if let Some(mut file) = deleted(&descriptor.path())
                    // Many processes may hold the same file open, and it takes its space once.
                    && seen.insert((file.device, file.inode))
                {
                    file.cgroups = cgroups(&process);
                    found.files.push(file);
                }
            }
        }
        Ok(found)
    }
}

/// The file behind a descriptor, if it is a regular one without a name.
fn deleted(descriptor: &Path) -> Option<DeletedFile> {
    let target = fs::read_link(descriptor).ok()?;
    let target = target.as_os_str().as_bytes();
    if !(target.starts_with(b"/") && target.ends_with(DELETED)) {
        return None;
    }
    let file = fs::metadata(descriptor).ok()?;
    // A file may have this ending in its name.
    (file.is_file() && file.nlink() == 0).then(|| DeletedFile {
        device: file.dev(),
        inode: file.ino(),
        in_overlay: statfs(descriptor)
            .is_ok_and(|found| found.filesystem_type() == OVERLAYFS_SUPER_MAGIC),
        bytes: i64::try_from(file.blocks().saturating_mul(512)).unwrap_or(i64::MAX),
        cgroups: Vec::new(),
    })
}

fn cgroups(process: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(process.join("cgroup")).unwrap_or_default();
    let path = |line: &str| {
        let path = line.splitn(3, ':').nth(2)?.trim_start_matches('/');
        (!path.is_empty()).then(|| PathBuf::from(path))
    };
    let mut paths: Vec<PathBuf> = text.lines().filter_map(path).collect();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn a_deleted_file_is_found_once_by_its_blocks_while_it_is_open() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("gone\nfile");
        fs::write(&path, vec![1; 300_000]).unwrap();
        let (held, again) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        let inode = held.metadata().unwrap().ino();
        let named = directory.path().join("kept (deleted)");
        let kept = File::create(&named).unwrap();
        let stop = AtomicBool::new(false);
        let find = |inode: u64| -> Vec<DeletedFile> {
            let mut files = DeletedFiles::look_for(Path::new("/proc"), &stop)
                .unwrap()
                .files;
            files.retain(|file| file.inode == inode);
            files
        };
        assert_eq!(find(inode), []);
        fs::remove_file(&path).unwrap();
        let found = find(inode);
        assert_eq!(found.len(), 1);
        assert!((300_000..400_000).contains(&found[0].bytes), "{found:?}");
        assert!(find(kept.metadata().unwrap().ino()).is_empty());
        drop((held, again));
        assert_eq!(find(inode), []);
    }

    #[test]
    fn a_scan_that_is_stopped_says_so() {
        let stopped = DeletedFiles::look_for(Path::new("/proc"), &AtomicBool::new(true)).unwrap();
        assert!(stopped.truncated && stopped.files.is_empty());
    }
}
