//! Finds the writable layers of running containers on the node: the upper directories of their overlays.
//!
//! A container may be hostile. In a user namespace of its own it can mount an overlay whose `upperdir=` names any path,
//! such as another pod's, and make it the root of its processes. So no path that a container's process shows is ever
//! used. The paths are those of overlays in the mount namespace of this daemon, where only the node's root can mount.
//! The runtime mounts a container's root there before it starts the container. The root of a process only selects one
//! of these overlays by its device number, which is that of one superblock. A process has another container's
//! superblock for its root only if the node gave it that mount. The names of the directories are compared too, because
//! a device number is used again as soon as an overlay is unmounted.
//!
//! A process that changes its root hides the layer, which then is unknown or counted by the runtime. It cannot claim
//! another one. This daemon sees no such mounts in a container of its own. If it shares the node's process ids there,
//! it uses the mounts of the node's first process. A layer is then walked where its directory is mounted at the same
//! path. Otherwise the runtime's figures remain.

use super::layers::Layers;
use crate::pods::LocalPod;
use evictd_kernel::cgroup::Hierarchies;
use std::{
    collections::HashMap,
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
};

/// How much of a container's mounts is read. Its root comes first, and a container can have very many mounts.
const MOUNTS_OF_A_CONTAINER: u64 = 64 << 10;
/// How many processes of a container are asked for its root.
const PROCESSES: usize = 4;

/// A pod's UID, and the name of a container of it.
pub(super) type Place = (String, String);

/// A container whose layer is to be found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LayerTarget {
    pub(super) place: Place,
    /// The pod's, relative to the roots of the hierarchies.
    pub(super) cgroup: PathBuf,
    /// The id in the name of the container's cgroup.
    pub(super) id: String,
    /// Whether the pod's cgroup is that of the container if there is none below.
    pub(super) alone: bool,
}

impl LayerTarget {
    /// The containers of a pod, by the ids under which their layers are found. The kubelet's containers have the
    /// runtime's ids, those in a cgroup that a manifest names have their own names. The runtime's report takes
    /// precedence over the kubelet's.
    pub(super) fn of(pod: &LocalPod, layers: &Layers) -> Vec<Self> {
        let Some(cgroup) = &pod.cgroup else {
            return Vec::new();
        };
        let containers = pod.containers.iter().filter_map(|container| {
            let name = &container.name;
            let place = (pod.uid.clone(), name.clone());
            let id = if cgroup.by_annotation {
                Some(name.as_str())
            } else {
                layers.container(&place).or(container.id.as_deref())
            };
            Some(Self {
                id: id?.to_owned(),
                place,
                cgroup: cgroup.relative.clone(),
                alone: cgroup.by_annotation && pod.containers.len() == 1,
            })
        });
        containers.collect()
    }
}

/// An overlay that is mounted with all its root.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Overlay<'a> {
    /// `major:minor` of its superblock.
    device: &'a str,
    upper: &'a str,
}

/// The upper directories of these containers, as far as they are found. `proc` is `/proc`.
pub(super) fn find(
    proc: &Path,
    hierarchies: &Hierarchies,
    targets: Vec<LayerTarget>,
) -> HashMap<Place, PathBuf> {
    // In a container of its own this daemon sees the node's mounts as the node's first process shows them.
    let tables = ["self", "1"].map(|process| {
        fs::read_to_string(proc.join(process).join("mountinfo")).unwrap_or_default()
    });
    let known: HashMap<&str, &str> = tables.iter().flat_map(|table| overlays(table)).collect();
    if known.is_empty() {
        return HashMap::new();
    }
    let upper = |one: LayerTarget| {
        let processes = processes(hierarchies, &one)?;
        // A process of another pid namespace is shown as 0.
        let mut processes = processes.iter().filter(|pid| **pid > 0).take(PROCESSES);
        let path = processes.find_map(|pid| {
            let shown = head(&proc.join(format!("{pid}/mountinfo"))).ok()?;
            let root = shown.lines().find_map(|line| overlay(line, "/"))?;
            let found = known.get(root.device)?;
            (*found == root.upper).then(|| PathBuf::from(*found))
        })?;
        Some((one.place, path))
    };
    targets.into_iter().filter_map(upper).collect()
}

fn processes(hierarchies: &Hierarchies, one: &LayerTarget) -> Option<Vec<u32>> {
    let children = hierarchies.children(&one.cgroup).ok()?;
    let child = children.into_iter().find(|child| child.id == one.id);
    let cgroup = match child {
        Some(child) => child.relative,
        None if one.alone => one.cgroup.clone(),
        None => return None,
    };
    let mut processes = hierarchies.procs(&cgroup).ok()?;
    // The first process of a container usually has its lowest id.
    processes.sort_unstable();
    Some(processes)
}

/// The upper directories by device number, without this daemon's own root: where that is an overlay, its directories
/// are paths of another mount namespace.
fn overlays(table: &str) -> HashMap<&str, &str> {
    let root_device = table.lines().find_map(|line| overlay(line, "/"));
    let root_device = root_device.map(|found| found.device);
    table
        .lines()
        .filter_map(|line| {
            let mounted_at = line.split(' ').nth(4)?;
            overlay(line, mounted_at)
        })
        // The kernel escapes unusual characters in a path with a backslash; no runtime's paths have them.
        .filter(|found| Some(found.device) != root_device && is_plain(found.upper))
        .map(|found| (found.device, found.upper))
        .collect()
}

fn is_plain(path: &str) -> bool {
    path.starts_with('/') && !path.contains('\\') && !path.split('/').any(|part| part == "..")
}

/// The overlay in a line of `mountinfo`, if it is one that is mounted there with all its root.
fn overlay<'a>(line: &'a str, mounted_at: &str) -> Option<Overlay<'a>> {
    let (mount, filesystem) = line.split_once(" - ")?;
    let mut mount = mount.split(' ').skip(2);
    let (device, root, at) = (mount.next()?, mount.next()?, mount.next()?);
    let mut filesystem = filesystem.split(' ');
    let is_overlay = filesystem.next()? == "overlay";
    let mut options = filesystem.nth(1)?.split(',');
    let upper = options.find_map(|option| option.strip_prefix("upperdir="))?;
    (is_overlay && root == "/" && at == mounted_at).then_some(Overlay { device, upper })
}

fn head(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MOUNTS_OF_A_CONTAINER)
        .read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: &str = "\
20 1 0:30 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/elsewhere,workdir=/w
21 20 254:0 / /var rw - ext4 /dev/vda rw
22 20 0:41 / /run/a/rootfs rw shared:3 - overlay overlay rw,lowerdir=/l,upperdir=/var/a/fs,workdir=/var/a/work
23 20 0:42 / /run/b/rootfs rw - overlay overlay rw,lowerdir=/l,upperdir=/var/b/fs,workdir=/var/b/work
24 20 0:43 / /run/odd/rootfs rw - overlay overlay rw,upperdir=/var/with\\040space
";

    /// A node with one process in the cgroup of a container, which shows this as its mounts.
    fn found(shown: &str) -> Option<PathBuf> {
        let top = tempfile::tempdir().unwrap();
        let at = |path: &str, text: &str| {
            let path = top.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        at("cgroup/cgroup.controllers", "memory");
        at("cgroup/pod/cgroup.procs", "");
        at("cgroup/pod/main/cgroup.procs", "7\n");
        at("proc/self/mountinfo", NODE);
        at("proc/7/mountinfo", shown);
        let hierarchies = Hierarchies::detect(&top.path().join("cgroup")).unwrap();
        let place = ("uid".to_owned(), "main".to_owned());
        let targets = LayerTarget {
            place: place.clone(),
            cgroup: "pod".into(),
            id: "main".to_owned(),
            alone: true,
        };
        find(&top.path().join("proc"), &hierarchies, vec![targets]).remove(&place)
    }

    #[test]
    fn the_layer_of_a_container_is_that_of_the_overlay_that_the_node_has_mounted() {
        let root = "90 80 0:41 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/a/fs,workdir=/var/a/work\n";
        assert_eq!(found(root), Some("/var/a/fs".into()));
    }

    #[test]
    fn a_mount_made_by_a_container_is_not_followed() {
        let shown = [
            // An overlay of its own over the directory of another pod: its superblock is not the node's.
            "90 80 0:77 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/b/fs\n",
            // The same, and the device number was the node's a moment ago.
            "90 80 0:41 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/b/fs\n",
            // Not its root, and not all of it.
            "90 80 0:41 / /mnt rw - overlay overlay rw,lowerdir=/l,upperdir=/var/a/fs\n",
            "90 80 0:41 /x / rw - overlay overlay rw,lowerdir=/l,upperdir=/var/a/fs\n",
            // No overlay.
            "90 80 0:41 / / rw - ext4 overlay rw,upperdir=/var/a/fs\n",
            // The node's own root, whose directories have other names here.
            "90 80 0:30 / / rw - overlay overlay rw,lowerdir=/l,upperdir=/elsewhere\n",
            "90 80 0:43 / / rw - overlay overlay rw,upperdir=/var/with\\040space\n",
            "nonsense\n",
            "",
        ];
        for shown in shown {
            assert_eq!(found(shown), None, "{shown}");
        }
    }
}
