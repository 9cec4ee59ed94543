//! The mount table: whether it has changed, and the type and source of a filesystem.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{major, minor};
use procfs::FromRead;
use procfs::process::{MountInfo, MountInfos};
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
    /// Whether the filesystem of this path cannot be written by any mount; `None` if the table does not tell. ext4 may
    /// refuse writes after errors and remain mounted for writing: `emergency_ro`.
    pub(super) fn is_read_only(&self, path: &Path, device: Option<u64>) -> Option<bool> {
        let mounts = MountInfos::from_file(&self.path).ok()?;
        let device = device.map(|device| format!("{}:{}", major(device), minor(device)));
        let of_device = |mount: &&MountInfo| Some(&mount.majmin) == device.as_ref();
        // A btrfs subvolume has another device number than its mount.
        let above = mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.mount_point));
        let above = above.max_by_key(|mount| mount.mount_point.as_os_str().len());
        let mount = mounts.iter().find(of_device).or(above)?;
        let has = |option: &str| mount.super_options.contains_key(option);
        Some(has("ro") || has("emergency_ro"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_filesystem_of_a_device_is_described() {
        let table = MountTable::watch(Path::new("/proc"));
        let device = Path::new("/proc").metadata().unwrap().dev();
        let described = table.describe(device).unwrap();
        assert!(described.starts_with("proc"), "{described}");
        assert_eq!(table.describe(u64::MAX), None);
    }

    #[test]
    fn the_filesystem_is_read_only_not_the_mount() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("self")).unwrap();
        let line = |major: u32, at: &str, mount: &str, filesystem: &str| {
            format!(
                "{major} 1 8:{major} / {at} {mount},relatime shared:1 - ext4 /dev/x {filesystem}\n"
            )
        };
        let table = [
            line(1, "/", "rw", "rw,discard"),
            line(2, "/pods", "ro", "rw"),
            line(3, "/images", "rw", "ro,errors=remount-ro"),
            line(4, "/failed", "rw", "rw,emergency_ro"),
        ];
        std::fs::write(directory.path().join("self/mountinfo"), table.concat()).unwrap();
        let mounts = MountTable::watch(directory.path());
        let number = |minor| Some(nix::sys::stat::makedev(8, minor));
        for (path, device, expected) in [
            ("/pods", number(2), false),
            ("/images", number(3), true),
            ("/failed", number(4), true),
            ("/images/subvolume", number(99), true),
            ("/else", None, false),
        ] {
            let told = mounts.is_read_only(Path::new(path), device);
            assert_eq!(told, Some(expected), "{path}");
        }
        let empty = MountTable::watch(Path::new("/nowhere"));
        assert_eq!(empty.is_read_only(Path::new("/"), None), None);
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
