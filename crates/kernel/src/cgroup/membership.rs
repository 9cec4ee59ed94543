//! Which cgroups this process itself is in, so that it never kills itself.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{CgroupError, Hierarchies, normalized};

/// The cgroups that this process is in, one per hierarchy.
#[derive(Debug, Clone)]
pub struct OwnCgroups {
    groups: Vec<PathBuf>,
}

impl OwnCgroups {
    /// Reads `self/cgroup` below `proc_root` (`/proc` on a real machine).
    pub fn read(hierarchies: &Hierarchies, proc_root: &Path) -> Result<Self, CgroupError> {
        let path = proc_root.join("self/cgroup");
        let text = fs::read(&path).map_err(|source| CgroupError::Read {
            path: path.clone(),
            source,
        })?;
        let groups = memberships(&text)
            .map(|line| line.map(|(controllers, group)| hierarchies.absolute(controllers, group)))
            .collect::<Result<_, _>>()
            .map_err(|line| CgroupError::Malformed { path, line })?;
        Ok(Self { groups })
    }

    /// Whether this process is in the cgroup or anywhere below it, in any hierarchy. Always true for the root.
    pub fn are_within(&self, relative: &Path) -> bool {
        normalized(relative)
            .is_none_or(|group| self.groups.iter().any(|mine| mine.starts_with(&group)))
    }
}

/// The lines of a `/proc/PID/cgroup`: the hierarchy's controllers (empty for cgroup2) and the cgroup, which starts
/// with a slash and may contain any bytes. A line of another form is returned as the error.
pub(crate) fn memberships(text: &[u8]) -> impl Iterator<Item = Result<(&str, &Path), String>> {
    let lines = text.split(|byte| *byte == b'\n');
    lines.filter(|line| !line.is_empty()).map(|line| {
        let mut parts = line.splitn(3, |byte| *byte == b':').skip(1);
        let controllers = parts.next().and_then(|part| str::from_utf8(part).ok());
        match (controllers, parts.next()) {
            (Some(controllers), Some(group)) if group.starts_with(b"/") => {
                Ok((controllers, Path::new(OsStr::from_bytes(group))))
            }
            _ => Err(String::from_utf8_lossy(line).into_owned()),
        }
    })
}
