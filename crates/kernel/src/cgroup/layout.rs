//! How the kubelet names the cgroups of pods and containers.
//!
//! cgroupfs driver: `kubepods[/burstable|/besteffort]/pod<UID>/<container id>`; systemd driver:
//! `kubepods.slice[/kubepods-burstable.slice]/kubepods-burstable-pod<UID with _>.slice/cri-containerd-<container id>.scope`.
//! A kubelet with a configured cgroup root puts it in front (`kubelet/kubepods`,
//! `kubelet.slice/kubelet-kubepods.slice`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{CgroupError, Hierarchies, normalized, subdirectories};

/// A pod's cgroup, created by the kubelet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The pod's UID, with the dashes that the systemd driver must write as underscores.
    pub uid: String,
    /// The cgroup, relative to the root of its hierarchy.
    pub relative: PathBuf,
}

/// A container's cgroup below the cgroup of its pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id of the container, without the systemd driver's prefix and suffix.
    pub id: String,
    /// The cgroup, relative to the root of its hierarchy.
    pub relative: PathBuf,
}

impl Hierarchies {
    /// The cgroups of all pods at or below `base`: the root (an empty path), `kubepods`, or any cgroup above a
    /// kubelet's tree.
    pub fn pods(&self, base: &Path) -> Result<Vec<PodCgroup>, CgroupError> {
        let gone = || CgroupError::NoSuchCgroup {
            relative: base.to_owned(),
        };
        let base = normalized(base).ok_or_else(gone)?;
        let mut found = Vec::new();
        collect_pods(&self.process_directory(&base)?, &base, &mut found)?;
        Ok(found)
    }

    /// The cgroup of the pod with this UID at or below `base`.
    pub fn find_pod(&self, base: &Path, uid: &str) -> Result<Option<PodCgroup>, CgroupError> {
        let mut pods = self.pods(base)?.into_iter();
        Ok(pods.find(|pod| pod.uid == uid))
    }

    /// The cgroups of containers directly below a pod's cgroup, including the sandbox.
    pub fn children(&self, pod: &Path) -> Result<Vec<Container>, CgroupError> {
        let names = subdirectories(&self.process_directory(pod)?)?;
        let container = |name| {
            Some(Container {
                id: container_of(name)?,
                relative: pod.join(name),
            })
        };
        Ok(names.iter().filter_map(|name| container(name)).collect())
    }
}

/// The container id in the name of a cgroup directly below a pod's; `None` if it is not the cgroup of a container.
/// In a name that is not UTF-8 the wrong bytes are replaced.
pub(crate) fn container_of(name: &OsStr) -> Option<String> {
    let name = name.to_string_lossy();
    // CRI-O may keep each container's monitor process in a cgroup of its own next to the container's.
    let is_monitor = name.starts_with("crio-conmon-");
    let id = match name.strip_suffix(".scope") {
        Some(scope) => scope.rsplit_once('-').map_or(scope, |(_, id)| id),
        None => &name,
    };
    (!is_monitor).then(|| id.to_owned())
}

fn collect_pods(
    dir: &Path,
    relative: &Path,
    found: &mut Vec<PodCgroup>,
) -> Result<(), CgroupError> {
    for name in subdirectories(dir)? {
        let below = relative.join(&name);
        if let Some(uid) = pod_uid(&below) {
            found.push(PodCgroup {
                uid,
                relative: below,
            });
        } else if name.to_str().is_some_and(is_pod_parent) {
            match collect_pods(&dir.join(&name), &below, found) {
                // Cgroups end while the tree is read, which says nothing of the others.
                Err(error) if !error.is_gone() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether a cgroup of this name may contain pods' cgroups: `kubepods` or one of its QoS classes.
fn is_pod_parent(name: &str) -> bool {
    match name.strip_suffix(".slice") {
        Some(slice) => {
            let tree = slice
                .strip_suffix("-burstable")
                .or_else(|| slice.strip_suffix("-besteffort"))
                .unwrap_or(slice);
            tree == "kubepods" || tree.ends_with("-kubepods")
        }
        None => matches!(name, "kubepods" | "burstable" | "besteffort"),
    }
}

/// The UID in the name of a pod's cgroup; `None` for any other cgroup.
pub(crate) fn pod_uid(relative: &Path) -> Option<String> {
    let parent = relative.parent()?.file_name()?.to_str()?;
    let name = relative.file_name()?.to_str()?;
    let uid = match name.strip_suffix(".slice") {
        // The UID of a static pod is a hash; no UID has "-pod" in it once its dashes are underscores.
        Some(slice) => slice.rsplit_once("-pod")?.1.replace('_', "-"),
        None => name.strip_prefix("pod")?.to_owned(),
    };
    (is_pod_parent(parent) && !uid.is_empty()).then_some(uid)
}
