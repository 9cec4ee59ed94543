//! How the kubelet names the groups of pods and their containers.
//!
//! cgroupfs driver: `kubepods[/burstable|/besteffort]/pod<UID>/<container id>`; systemd driver:
//! `kubepods.slice[/kubepods-burstable.slice]/kubepods-burstable-pod<UID with _>.slice/cri-containerd-<container id>.scope`.
//! A kubelet with a cgroup root of its own puts that before (`kubelet/kubepods`, `kubelet.slice/kubelet-kubepods.slice`).

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::{CgroupError, Hierarchies, normal, subdirectories};

/// A pod's group as the kubelet made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodCgroup {
    /// The pod's UID, with the dashes that the systemd driver must write as underscores.
    pub uid: String,
    /// The group, relative to the root of its hierarchy.
    pub relative: PathBuf,
}

/// A container's group below its pod's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id of the container, without the systemd driver's prefix and suffix.
    pub id: String,
    /// The group, relative to the root of its hierarchy.
    pub relative: PathBuf,
}

impl Hierarchies {
    /// All pods' groups at or below `base`: the root (an empty path), `kubepods`, or whatever holds a kubelet's tree.
    pub fn pods(&self, base: &Path) -> Result<Vec<PodCgroup>, CgroupError> {
        let gone = || CgroupError::NoSuchCgroup {
            relative: base.to_owned(),
        };
        let base = normal(base).ok_or_else(gone)?;
        let mut found = Vec::new();
        collect_pods(&self.home(&base)?, &base, &mut found)?;
        Ok(found)
    }

    /// The group of the pod with this UID at or below `base`.
    pub fn find_pod(&self, base: &Path, uid: &str) -> Result<Option<PodCgroup>, CgroupError> {
        let mut pods = self.pods(base)?.into_iter();
        Ok(pods.find(|pod| pod.uid == uid))
    }

    /// The containers' groups directly below a pod's group, the sandbox's included.
    pub fn children(&self, pod: &Path) -> Result<Vec<Container>, CgroupError> {
        let names = subdirectories(&self.home(pod)?)?;
        let container = |name| {
            Some(Container {
                id: container_of(name)?,
                relative: pod.join(name),
            })
        };
        Ok(names.iter().filter_map(|name| container(name)).collect())
    }
}

/// The id of the container whose group has this name directly below its pod's; None for a group that is no container's. A
/// name that is no text stays recognisable.
pub(crate) fn container_of(name: &OsStr) -> Option<String> {
    let name = name.to_string_lossy();
    // CRI-O may keep the monitor process of each container in a group of its own beside the container's.
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
                Err(error) if !error.is_gone() => return Err(error),
                _ => {}
            }
        }
    }
    Ok(())
}

/// Whether the kubelet puts pods' groups, or the groups of a quality of service, into a group of this name.
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

/// The UID in the name of a group that the kubelet made for a pod; None for any other group.
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
