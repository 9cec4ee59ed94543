//! The filesystem's own count for a directory. On ext4 and XFS, statfs on a directory with a project and a limit
//! returns the limit and the rest of it. That takes microseconds however many files there are.

use rustix::fs::{CWD, Mode, OFlags, StatVfs, fstat, fstatvfs, openat};
use std::path::Path;

/// The size of a project's files, including files that are deleted and still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectUsage {
    /// Allocated on disk.
    pub bytes: i64,
    /// `None` if the project has no limit on inodes.
    pub inodes: Option<i64>,
    /// The device number of the filesystem.
    pub device: u64,
}

impl ProjectUsage {
    /// The usage of the project of this directory. `None` if it has no project with a limit on bytes, or shares that of its
    /// parent directory. `None` too where statfs hides the figures of the project: at the limit, or if the filesystem has
    /// less left than the project may take. A project that is shared with another directory, not above this one, cannot be
    /// distinguished.
    pub fn of(path: &Path) -> Option<Self> {
        let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
        let directory = openat(CWD, path, flags, Mode::empty()).ok()?;
        let above = openat(&directory, "..", flags, Mode::empty()).ok()?;
        let device = fstat(&directory).ok()?.st_dev;
        if fstat(&above).ok()?.st_dev != device {
            return None;
        }
        // The available space of the whole filesystem changes meanwhile.
        let before = fstatvfs(&above).ok()?;
        let project = fstatvfs(&directory).ok()?;
        let whole = least(&before, &fstatvfs(&above).ok()?);
        let blocks = used(blocks(&project), blocks(&whole))?;
        // XFS derives the number of all inodes from the free space, so it changes: only a limit far below it is one.
        let inodes = used(inodes(&project), [whole.f_files / 2, whole.f_ffree]);
        Some(ProjectUsage {
            bytes: i64::try_from(blocks.checked_mul(project.f_frsize)?).ok()?,
            inodes: inodes.and_then(|inodes| i64::try_from(inodes).ok()),
            device,
        })
    }
}

const fn blocks(of: &StatVfs) -> [u64; 2] {
    [of.f_blocks, of.f_bfree]
}

const fn inodes(of: &StatVfs) -> [u64; 2] {
    [of.f_files, of.f_ffree]
}

fn least(one: &StatVfs, other: &StatVfs) -> StatVfs {
    StatVfs {
        f_bfree: one.f_bfree.min(other.f_bfree),
        f_files: one.f_files.min(other.f_files),
        f_ffree: one.f_ffree.min(other.f_ffree),
        ..*one
    }
}

/// The usage from a limit and its rest, beside the size and the rest of the whole filesystem. Newer kernels report the
/// smaller rest of the project's and the filesystem's.
fn used([limit, left]: [u64; 2], [whole, whole_left]: [u64; 2]) -> Option<u64> {
    let is_limited = limit < whole && left > 0 && left < whole_left;
    is_limited.then(|| limit.saturating_sub(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_quota_gives_the_usage_only_below_its_own_limit() {
        let cases = [
            ([100, 40], [1000, 500], Some(60)),
            ([100, 100], [1000, 500], Some(0)),
            ([1000, 400], [1000, 500], None),
            ([100, 0], [1000, 500], None),
            // The filesystem has less left than the limit: that is told.
            ([100, 90], [1000, 90], None),
            // One that tells more free than there is.
            ([100, 200], [1000, 500], Some(0)),
            ([0, 0], [0, 0], None),
        ];
        for (own, whole, expected) in cases {
            assert_eq!(used(own, whole), expected, "{own:?} {whole:?}");
        }
    }

    #[test]
    fn without_project_quotas_there_is_no_usage() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(ProjectUsage::of(top.path()), None);
        assert_eq!(ProjectUsage::of(Path::new("/")), None);
        assert_eq!(ProjectUsage::of(Path::new("/proc")), None);
        assert_eq!(ProjectUsage::of(&top.path().join("missing")), None);
    }
}
