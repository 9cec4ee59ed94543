//! The mount table: whether it has changed, and the type and source of a filesystem.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{major, minor};
use procfs::FromRead;
use procfs::process::MountInfos;
use std::fs::File;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

/// `/proc/self/mountinfo`; the kernel reports changes of it to `poll`.
#[derive(Debug)]
pub(super) struct MountTable {
    path: PathBuf,
    watched: Option<File>,
}

impl MountTable {
    pub(super) fn watch(proc_root: &Path) -> Self {
        let path = proc_root.join("self/mountinfo");
        Self {
            watched: File::open(&path).ok(),
            path,
        }
    }

    /// Whether it may have changed since the last call.
    pub(super) fn changed(&self) -> bool {
        let Some(file) = &self.watched else {
            return true;
        };
        let mut wanted = [PollFd::new(file.as_fd(), PollFlags::POLLPRI)];
        match poll(&mut wanted, PollTimeout::ZERO) {
            Ok(0) => false,
            Ok(_) => wanted[0].any().unwrap_or(true),
            Err(_) => true,
        }
    }

    /// Type and source of the filesystem on a device, such as `ext4 on /dev/sda1`. `None` if the table does not
    /// list the device, as for btrfs subvolumes.
    pub(super) fn describe(&self, device: u64) -> Option<String> {
        let device = format!("{}:{}", major(device), minor(device));
        let mounts = MountInfos::from_file(&self.path).ok()?;
        let mount = mounts.into_iter().find(|mount| mount.majmin == device)?;
        Some(match mount.mount_source {
            Some(source) => format!("{} on {source}", mount.fs_type),
            None => mount.fs_type,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn names_what_is_mounted() {
        let table = MountTable::watch(Path::new("/proc"));
        let device = Path::new("/proc").metadata().unwrap().dev();
        let described = table.describe(device).unwrap();
        assert!(described.starts_with("proc"), "{described}");
        assert_eq!(table.describe(u64::MAX), None);
    }

    #[test]
    fn a_missing_table_counts_as_changed_and_a_malformed_one_names_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = MountTable::watch(directory.path());
        assert!(missing.changed());
        assert_eq!(missing.describe(0), None);

        std::fs::create_dir(directory.path().join("self")).unwrap();
        for rubbish in [
            "",
            "22 27",
            "22 27 0:21 / /proc rw shared:x - proc proc rw\n",
        ] {
            std::fs::write(directory.path().join("self/mountinfo"), rubbish).unwrap();
            assert_eq!(MountTable::watch(directory.path()).describe(21), None);
        }
    }
}
