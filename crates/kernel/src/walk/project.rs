//! What the filesystem itself counts for a directory: where a directory has a project of its own with a limit, statfs on
//! it tells the limit and what is left of it, on ext4 and XFS. That takes microseconds however many files there are.

use rustix::fs::{CWD, Mode, OFlags, StatVfs, fstat, fstatvfs, openat};
use std::path::Path;

/// What a project's files hold, files included that are deleted and still open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProjectUsage {
    /// Allocated on disk.
    pub bytes: i64,
    /// `None` if the project has no limit on inodes.
    pub inodes: Option<i64>,
    /// The device number of the filesystem.
    pub device: u64,
}

/// The usage of the project of this directory. `None` if it has no project with a limit on bytes, shares that of the
/// directory that it is in, or has reached its limit: then statfs does not tell how much there is. A project that is
/// shared with another directory that is not above it cannot be told from one of its own.
pub fn project_usage(path: &Path) -> Option<ProjectUsage> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let directory = openat(CWD, path, flags, Mode::empty()).ok()?;
    let above = openat(&directory, "..", flags, Mode::empty()).ok()?;
    let device = fstat(&directory).ok()?.st_dev;
    if fstat(&above).ok()?.st_dev != device {
        return None;
    }
    let (own, whole) = (fstatvfs(&directory).ok()?, fstatvfs(&above).ok()?);
    let blocks = used(own.f_blocks, own.f_bfree, whole.f_blocks)?;
    Some(ProjectUsage {
        bytes: i64::try_from(blocks.checked_mul(own.f_frsize)?).ok()?,
        inodes: inodes(&own, &whole),
        device,
    })
}

/// XFS makes up the number of all inodes from the free space, so that it moves: only a limit far below it is one.
fn inodes(own: &StatVfs, whole: &StatVfs) -> Option<i64> {
    let used = used(own.f_files, own.f_ffree, whole.f_files / 2)?;
    i64::try_from(used).ok()
}

/// `None` without a limit below that of the whole filesystem, and where nothing is left of it.
fn used(limit: u64, left: u64, whole: u64) -> Option<u64> {
    (limit < whole && left > 0).then(|| limit.saturating_sub(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_of_its_own_that_is_not_reached_tells_what_a_directory_holds() {
        let cases = [
            ((100, 40, 1000), Some(60)),
            ((100, 100, 1000), Some(0)),
            ((1000, 400, 1000), None),
            ((100, 0, 1000), None),
            // A filesystem that tells more free than there is.
            ((100, 200, 1000), Some(0)),
            ((0, 0, 0), None),
        ];
        for ((limit, left, whole), expected) in cases {
            assert_eq!(used(limit, left, whole), expected, "{limit} {left} {whole}");
        }
    }

    #[test]
    fn without_projects_there_is_nothing_to_be_told() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(project_usage(top.path()), None);
        assert_eq!(project_usage(Path::new("/")), None);
        assert_eq!(project_usage(Path::new("/proc")), None);
        assert_eq!(project_usage(&top.path().join("missing")), None);
    }
}
