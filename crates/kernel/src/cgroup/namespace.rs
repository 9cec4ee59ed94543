//! How to read `/proc/PID/cgroup` in a process that has a cgroup namespace of its own, as containers have on cgroup
//! v2.
//!
//! The kernel shows paths relative to where the namespace begins: the pod next to this one is `/../../podx/c1`. But
//! the hierarchies are mounted from their roots. So this process looks for its own id in them, and thereby learns
//! where its namespace begins.

use std::fs;
use std::path::{Component, Path, PathBuf};

use super::{CgroupError, Controller, Hierarchies, memberships, normalized, subdirectories};

/// Where this process's namespace begins, for each hierarchy in which that is not the root.
pub(super) type NamespaceRoots = Vec<(Option<Controller>, PathBuf)>;

impl Hierarchies {
    /// These hierarchies with the namespace of this process, whose id is read below `proc_root` (`/proc` on a real
    /// machine).
    pub fn with_namespace_of_this_process(mut self, proc_root: &Path) -> Result<Self, CgroupError> {
        let path = proc_root.join("self/cgroup");
        let text = fs::read(&path).map_err(|source| CgroupError::Read {
            path: path.clone(),
            source,
        })?;
        let mut namespace_roots = NamespaceRoots::new();
        for line in memberships(&text) {
            let (controllers, shown) = line.map_err(|line| CgroupError::Malformed {
                path: path.clone(),
                line,
            })?;
            let (Some((hierarchy, mount)), Some(shown)) = (self.of(controllers), normalized(shown))
            else {
                continue;
            };
            let pid = std::process::id().to_string();
            if lists_process(&mount.join(&shown), &pid) {
                continue;
            }
            // In a foreign pid namespace this process's id is not listed anywhere.
            let found = find(mount, Path::new(""), &pid);
            let above = |found: PathBuf| {
                let depth = found.components().count();
                let below = shown.components().count();
                let above = found.components().take(depth.checked_sub(below)?);
                Some(above.collect::<PathBuf>()).filter(|above| above.join(&shown) == found)
            };
            if let Some(above) = found.and_then(above) {
                namespace_roots.push((hierarchy, above));
            }
        }
        self.namespace_roots = namespace_roots;
        Ok(self)
    }

    /// The path, relative to the root of its hierarchy, of the cgroup that `/proc` shows to this process as
    /// `shown`.
    pub fn absolute(&self, controllers: &str, shown: &Path) -> PathBuf {
        let hierarchy = self.of(controllers).map(|(hierarchy, _)| hierarchy);
        let mut roots = self.namespace_roots.iter();
        let root = roots.find(|(known, _)| Some(*known) == hierarchy);
        let mut path = root.map_or_else(PathBuf::new, |(_, root)| root.clone());
        for part in shown.components() {
            match part {
                Component::Normal(name) => path.push(name),
                Component::ParentDir => {
                    path.pop();
                }
                Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
            }
        }
        path
    }

    /// The hierarchy that a line of `/proc/PID/cgroup` is about, and where it is mounted.
    fn of(&self, controllers: &str) -> Option<(Option<Controller>, &Path)> {
        if controllers.is_empty() {
            return Some((None, self.unified.as_deref()?));
        }
        let listed = |known: Controller| controllers.split(',').any(|name| name == known.as_str());
        let (known, mount) = self.v1.iter().find(|(known, _)| listed(*known))?;
        Some((Some(*known), mount))
    }
}

fn lists_process(dir: &Path, pid: &str) -> bool {
    let procs = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    procs.lines().any(|line| line == pid)
}

/// The cgroup below `mount` that lists the process.
fn find(mount: &Path, relative: &Path, pid: &str) -> Option<PathBuf> {
    let dir = mount.join(relative);
    if lists_process(&dir, pid) {
        return Some(relative.to_owned());
    }
    // A cgroup that is removed meanwhile cannot be that of this process.
    let below = subdirectories(&dir).unwrap_or_default();
    below
        .into_iter()
        .find_map(|name| find(mount, &relative.join(name), pid))
}
