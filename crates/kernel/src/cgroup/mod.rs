//! Where the kernel keeps its cgroups, and which processes are in them.
//!
//! A cgroup is named by a path relative to the root of its hierarchy (`kubepods/burstable/pod<UID>`), because on
//! cgroup v1 the same cgroup has one directory in every controller's hierarchy. A leading slash is ignored.

mod dir;
mod layout;
mod membership;
mod namespace;
mod reclaim;

use std::ffi::OsString;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

pub(crate) use dir::GroupDir;
pub use layout::PodCgroup;
pub(crate) use layout::{container_of, pod_uid};
pub use membership::OwnCgroups;
pub(crate) use membership::memberships;
pub use reclaim::Reclaim;

/// The usual mount point of the hierarchies.
pub const DEFAULT_ROOT: &str = "/sys/fs/cgroup";

/// An error with a file of the cgroup file system.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// A file or directory could not be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file with its whole path.
        path: PathBuf,
        /// The error of the system call.
        source: io::Error,
    },
    /// The content of a file differs from the kernel's format.
    #[error("{}: unexpected line {line:?}", path.display())]
    Malformed {
        /// The file with its whole path.
        path: PathBuf,
        /// The first line that is not understood.
        line: String,
    },
    /// No hierarchy is mounted below the root.
    #[error("{}: neither a cgroup v2 tree nor any cgroup v1 controller", root.display())]
    NoHierarchy {
        /// The directory that was searched.
        root: PathBuf,
    },
    /// No hierarchy has this cgroup: it was removed, or never existed.
    #[error("no cgroup {} in any hierarchy", relative.display())]
    NoSuchCgroup {
        /// The group, relative to the root of its hierarchy.
        relative: PathBuf,
    },
}

impl CgroupError {
    /// Whether the cgroup does not exist (any more), which is normal for a pod that has ended.
    pub fn is_gone(&self) -> bool {
        match self {
            Self::Read { source, .. } | Self::Write { source, .. } => is_removed(source),
            Self::NoSuchCgroup { .. } => true,
            Self::Malformed { .. } | Self::NoHierarchy { .. } => false,
        }
    }
}

/// A kernel controller that evictd reads from or writes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controller {
    /// Memory limits and usage.
    Memory,
    /// Limits and counts of processes and threads.
    Pids,
    /// Stops and resumes all processes of a group (cgroup v1).
    Freezer,
    /// CPU time: its limit and its weight.
    Cpu,
    /// Input and output (cgroup v2).
    Io,
    /// The same as `Io` on cgroup v1.
    Blkio,
}

impl Controller {
    const ALL: [Self; 6] = [
        Self::Memory,
        Self::Pids,
        Self::Freezer,
        Self::Cpu,
        Self::Io,
        Self::Blkio,
    ];

    /// The kernel's name of the controller.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Pids => "pids",
            Self::Freezer => "freezer",
            Self::Cpu => "cpu",
            Self::Io => "io",
            Self::Blkio => "blkio",
        }
    }
}

/// How this machine mounts its hierarchies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy per controller, and in addition a cgroup2 tree without controllers.
    Hybrid,
    /// One tree for all controllers.
    V2,
}

/// The hierarchies that are mounted below one root.
#[derive(Debug, Clone)]
pub struct Hierarchies {
    /// Per controller, in the order of [`Controller::ALL`]; empty on v2.
    v1: Vec<(Controller, PathBuf)>,
    unified: Option<PathBuf>,
    /// The controllers of the v2 tree; a kernel may be started without one (`cgroup_disable=memory`). Empty on v1.
    unified_controllers: Vec<Controller>,
    /// Where this process's cgroup namespace begins in each hierarchy, which is where paths in `/proc` begin.
    namespace_roots: namespace::NamespaceRoots,
}

impl Hierarchies {
    /// Searches below `root` ([`DEFAULT_ROOT`] on a real machine) for a cgroup v2 tree or for cgroup v1 controllers. A
    /// controller may be mounted alone (`memory`) or with others (`cpu,cpuacct`), with or without a cgroup2 tree in
    /// `unified`.
    pub fn detect(root: &Path) -> Result<Self, CgroupError> {
        if let Some(unified_controllers) = controllers_of(root)? {
            return Ok(Self {
                v1: Vec::new(),
                unified: Some(root.to_owned()),
                unified_controllers,
                namespace_roots: Vec::new(),
            });
        }
        let mounts = subdirectories(root)?;
        let mount_of = |controller: Controller| {
            let wanted = controller.as_str().as_bytes();
            let mount = mounts.iter().find(|name| {
                // Controllers may be mounted together: `cpu,cpuacct`.
                let mut parts = name.as_bytes().split(|byte| *byte == b',');
                parts.any(|part| part == wanted)
            })?;
            Some((controller, root.join(mount)))
        };
        let v1: Vec<_> = Controller::ALL.into_iter().filter_map(mount_of).collect();
        if v1.is_empty() {
            return Err(CgroupError::NoHierarchy {
                root: root.to_owned(),
            });
        }
        let unified = root.join("unified");
        let unified = unified.join("cgroup.procs").is_file().then_some(unified);
        Ok(Self {
            v1,
            unified,
            unified_controllers: Vec::new(),
            namespace_roots: Vec::new(),
        })
    }

    /// How the hierarchies are mounted.
    pub fn version(&self) -> Version {
        match (self.v1.is_empty(), &self.unified) {
            (true, _) => Version::V2,
            (false, Some(_)) => Version::Hybrid,
            (false, None) => Version::V1,
        }
    }

    /// The mount points of the hierarchies, the cgroup2 tree last.
    pub fn mounts(&self) -> impl Iterator<Item = &Path> {
        let v1 = self.v1.iter().map(|(_, mount)| mount.as_path());
        v1.chain(self.unified.as_deref())
    }

    /// The directory of a cgroup in the hierarchy of `controller`, whether it exists or not. `None` if the
    /// controller is not mounted or not enabled in the v2 tree, or if `relative` contains `..`.
    pub fn dir(&self, controller: Controller, relative: &Path) -> Option<PathBuf> {
        // On a hybrid machine the unified tree has no controllers, so the v1 mount is taken.
        if self.unified_controllers.contains(&controller) {
            return self.unified(relative);
        }
        let (_, mount) = self.v1.iter().find(|(known, _)| *known == controller)?;
        Some(mount.join(normalized(relative)?))
    }

    /// The directory of a cgroup in the cgroup2 tree, whether it exists or not. `None` if there is no such tree, or
    /// if `relative` contains `..`.
    pub fn unified(&self, relative: &Path) -> Option<PathBuf> {
        Some(self.unified.as_ref()?.join(normalized(relative)?))
    }

    /// The directory that lists the processes of a cgroup: in the cgroup2 tree on v2, else in the first
    /// controller's hierarchy that has the cgroup.
    pub fn process_directory(&self, relative: &Path) -> Result<PathBuf, CgroupError> {
        Ok(self.process_hierarchy(relative)?.1)
    }

    /// [`Self::process_directory`] and its hierarchy: a v1 controller's, or `None` for the cgroup2 tree.
    pub(crate) fn process_hierarchy(
        &self,
        relative: &Path,
    ) -> Result<(Option<Controller>, PathBuf), CgroupError> {
        let gone = || CgroupError::NoSuchCgroup {
            relative: relative.to_owned(),
        };
        let group = normalized(relative).ok_or_else(gone)?;
        for (hierarchy, mount) in self.all_mounts() {
            let dir = mount.join(&group);
            match fs::metadata(&dir) {
                Ok(found) if found.is_dir() => return Ok((hierarchy, dir)),
                // A hierarchy without this group is passed over; an unreadable one is no proof that it is gone.
                Err(source) if !is_missing(&source) => {
                    return Err(CgroupError::Read { path: dir, source });
                }
                _ => {}
            }
        }
        Err(gone())
    }

    /// All hierarchies, the cgroup2 tree last.
    fn all_mounts(&self) -> impl Iterator<Item = (Option<Controller>, &PathBuf)> {
        let v1 = self.v1.iter().map(|(known, mount)| (Some(*known), mount));
        v1.chain(self.unified.iter().map(|mount| (None, mount)))
    }

    /// The ids of all processes in a cgroup and below. The id 0 stands for a process in a pid namespace that is not
    /// visible from here.
    pub fn procs(&self, relative: &Path) -> Result<Vec<u32>, CgroupError> {
        procs_below(&self.process_directory(relative)?)
    }

    /// Reclaims so many bytes of the cgroup. It takes as long as the kernel needs to look through so much memory.
    ///
    /// # Errors
    /// The error of opening or writing the file; [`Reclaim::Less`] is no error.
    pub fn reclaim_memory(&self, relative: &Path, bytes: u64) -> io::Result<Reclaim> {
        let dir = self.dir(Controller::Memory, relative);
        Reclaim::request(&dir.ok_or(ErrorKind::NotFound)?, bytes)
    }

    /// Whether some process is known to run in a cgroup or below.
    pub fn runs(&self, relative: &Path) -> bool {
        self.procs(relative).is_ok_and(|procs| !procs.is_empty())
    }
}

/// The controllers of a v2 tree; `None` if `root` is not one.
fn controllers_of(root: &Path) -> Result<Option<Vec<Controller>>, CgroupError> {
    let path = root.join("cgroup.controllers");
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(CgroupError::Read { path, source }),
    };
    let is_listed = |controller: &Controller| {
        let mut names = text.split_ascii_whitespace();
        names.any(|name| name == controller.as_str())
    };
    Ok(Some(
        Controller::ALL.into_iter().filter(is_listed).collect(),
    ))
}

/// The ids of all processes in the cgroup at `dir` and below, without duplicates. Cgroups that disappear meanwhile
/// count as empty. If `dir` itself does not exist, [`CgroupError::is_gone`] is true for the error.
pub(crate) fn procs_below(dir: &Path) -> Result<Vec<u32>, CgroupError> {
    let (pids, outcome) = GroupDir::open(dir)?.processes();
    outcome.map(|()| pids)
}

/// The names of the directories in `dir`, including links to directories, sorted.
pub fn subdirectories(dir: &Path) -> Result<Vec<OsString>, CgroupError> {
    let failed = |source| CgroupError::Read {
        path: dir.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        // The links beside joint mounts, `cpu` to `cpu,cpuacct`, lead to directories.
        if kind.is_dir() || (kind.is_symlink() && entry.path().is_dir()) {
            names.push(entry.file_name());
        }
    }
    names.sort_unstable();
    Ok(names)
}

/// A cgroup's path without leading slash and `.`; `None` if it contains `..`.
pub(crate) fn normalized(relative: &Path) -> Option<PathBuf> {
    let mut path = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => path.push(name),
            Component::RootDir | Component::CurDir => {}
            Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    Some(path)
}

/// Whether the error means that there is no such file or directory.
fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Whether the error means that the cgroup was removed: before the file was opened, or while it was open (ENODEV).
pub(crate) fn is_removed(error: &io::Error) -> bool {
    error.kind() == ErrorKind::NotFound
        || error.raw_os_error() == Some(nix::errno::Errno::ENODEV as i32)
}

#[cfg(test)]
mod tests;
