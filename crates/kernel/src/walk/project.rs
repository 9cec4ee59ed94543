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

/// The usage of the project of this directory. `None` if it has no project with a limit on bytes or shares that of the
/// directory that it is in, and where statfs does not tell how much there is: the limit is reached, or the whole
/// filesystem has less left than the project may take. A project that is shared with another directory that is not above
/// it cannot be told from one of its own.
pub fn project_usage(path: &Path) -> Option<ProjectUsage> {
    let flags = OFlags::PATH | OFlags::CLOEXEC | OFlags::DIRECTORY;
    let directory = openat(CWD, path, flags, Mode::empty()).ok()?;
    let above = openat(&directory, "..", flags, Mode::empty()).ok()?;
    let device = fstat(&directory).ok()?.st_dev;
    if fstat(&above).ok()?.st_dev != device {
        return None;
    }
    // What is left of the whole filesystem moves meanwhile.
    let before = fstatvfs(&above).ok()?;
    let own = fstatvfs(&directory).ok()?;
    let whole = least(&before, &fstatvfs(&above).ok()?);
    let blocks = used(blocks(&own), blocks(&whole))?;
    // XFS makes up the number of all inodes from the free space, so that it moves: only a limit far below it is one.
    let inodes = used(inodes(&own), [whole.f_files / 2, whole.f_ffree]);
    Some(ProjectUsage {
        bytes: i64::try_from(blocks.checked_mul(own.f_frsize)?).ok()?,
        inodes: inodes.and_then(|inodes| i64::try_from(inodes).ok()),
        device,
    })
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

/// Of a limit and what is left of it, beside how much there is of the whole filesystem and what is left of that. Newer
/// kernels tell the smaller of what the project and what the filesystem has left.
fn used([limit, left]: [u64; 2], [whole, whole_left]: [u64; 2]) -> Option<u64> {
    let own = limit < whole && left > 0 && left < whole_left;
    own.then(|| limit.saturating_sub(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_limit_of_its_own_that_is_not_reached_tells_what_a_directory_holds() {
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
    fn without_projects_there_is_nothing_to_be_told() {
        let top = tempfile::tempdir().unwrap();
        assert_eq!(project_usage(top.path()), None);
        assert_eq!(project_usage(Path::new("/")), None);
        assert_eq!(project_usage(Path::new("/proc")), None);
        assert_eq!(project_usage(&top.path().join("missing")), None);
    }
}
