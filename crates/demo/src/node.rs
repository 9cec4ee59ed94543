//! The small node of the demo: one cgroup with limits, the pods' cgroups in it, and a small disk if the scenario needs
//! one. Everything is removed at the end, also after an error.

use crate::scenario::VOLUME;
use evictd_kernel::cgroup::{CgroupError, Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_signals::StarvedResource;
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use std::{
    fs,
    io::{self, ErrorKind},
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    time::Duration,
};
use tokio::time::sleep;

const PREFIX: &str = "evictd-demo-";

/// Why a real node cannot be built.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// There are no cgroups.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The process does not run as root.
    #[error("making cgroups needs root (user id 0); this is user id {0}")]
    NotRoot(u32),
    /// The cgroup controller that limits the node is missing.
    #[error("there is no {0} cgroup controller to bound the node with")]
    NoController(&'static str),
    /// A file of a cgroup could not be written.
    #[error("{}cannot write {}", hint(source), path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The small disk could not be mounted.
    #[error(
        "cannot mount a small filesystem for the demo: {source}{}",
        hint(source)
    )]
    Disk {
        /// The cause.
        source: io::Error,
    },
}

/// The missing requirement, if the error shows it.
fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => "the capability CAP_SYS_ADMIN is missing: ",
        ErrorKind::ReadOnlyFilesystem => "cgroups are mounted read-only here: ",
        _ => "",
    }
}

/// The node; dropping it kills the processes in it and removes it.
#[derive(Debug)]
pub struct Node {
    hierarchies: Hierarchies,
    /// Its cgroup, relative to the root of each hierarchy.
    pub cgroup: PathBuf,
    /// A directory for manifests, state and socket.
    pub directory: PathBuf,
    pods: Vec<PathBuf>,
}

impl Node {
    /// Builds the node with these limits.
    pub fn build(
        hierarchies: Hierarchies,
        memory_bytes: i64,
        most_pids: Option<u32>,
        disk_bytes: Option<u64>,
    ) -> Result<Self, NodeError> {
        let user = nix::unistd::geteuid();
        if !user.is_root() {
            return Err(NodeError::NotRoot(user.as_raw()));
        }
        let name = name_of(std::process::id());
        let node = Self {
            directory: std::env::temp_dir().join(&name),
            cgroup: PathBuf::from(name),
            hierarchies,
            pods: Vec::new(),
        };
        node.remove_leftovers();
        node.make(&node.cgroup)?;
        node.limit(
            Controller::Memory,
            "memory.limit_in_bytes",
            "memory.max",
            &memory_bytes.to_string(),
        )?;
        if let Some(most) = most_pids {
            node.limit(Controller::Pids, "pids.max", "pids.max", &most.to_string())?;
        }
        for directory in ["", "manifests", "disk"] {
            let path = node.directory.join(directory);
            // Only for this user, and only if it does not exist yet: others must not read it or prepare it.
            fs::DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .map_err(|source| NodeError::Write { path, source })?;
        }
        if let Some(bytes) = disk_bytes {
            node.mount_disk(bytes)?;
        }
        Ok(node)
    }

    /// Creates the cgroup of a pod.
    pub fn pod(&mut self, name: &str) -> Result<PathBuf, NodeError> {
        let cgroup = self.cgroup.join(name);
        self.make(&cgroup)?;
        self.pods.push(cgroup.clone());
        Ok(cgroup)
    }

    /// Moves a process into a cgroup, in every hierarchy.
    pub fn enter(&self, cgroup: &Path, pid: u32) -> Result<(), NodeError> {
        for directory in self.directories(cgroup) {
            write(&directory.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// How often the kernel's OOM killer killed a process in the node.
    pub fn kernel_oom_kills(&self) -> u64 {
        let directory = self
            .hierarchies
            .dir(Controller::Memory, &self.cgroup)
            .unwrap_or_default();
        let file = match self.hierarchies.version() {
            Version::V2 => "memory.events",
            _ => "memory.oom_control",
        };
        let mut kills = 0;
        for group in self.pods.iter().chain(std::iter::once(&self.cgroup)) {
            let name = group.file_name().filter(|_| group != &self.cgroup);
            let path = name
                .map_or_else(|| directory.clone(), |name| directory.join(name))
                .join(file);
            let text = fs::read_to_string(path).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
            let count: u64 = line
                .and_then(|count| count.trim().parse().ok())
                .unwrap_or(0);
            // On v2 the node's count includes its pods.
            kills = if self.hierarchies.version() == Version::V2 {
                kills.max(count)
            } else {
                kills + count
            };
        }
        kills
    }

    /// How much of this resource a pod uses: bytes, or processes and threads.
    pub fn usage(&self, name: &str, resource: StarvedResource) -> Option<i64> {
        let (controller, file) = match (resource, self.hierarchies.version()) {
            (StarvedResource::EphemeralStorage | StarvedResource::Inodes, _) => {
                let files = fs::read_dir(self.volume(name)).ok()?;
                let sizes = files.filter_map(|file| file.ok()?.metadata().ok());
                return i64::try_from(sizes.map(|file| file.len()).sum::<u64>()).ok();
            }
            // No scenario uses this resource.
            (StarvedResource::Io, _) => return None,
            (StarvedResource::Pids, _) => (Controller::Pids, "pids.current"),
            (StarvedResource::Memory, Version::V2) => (Controller::Memory, "memory.current"),
            (StarvedResource::Memory, _) => (Controller::Memory, "memory.usage_in_bytes"),
        };
        let directory = self.hierarchies.dir(controller, &self.cgroup.join(name))?;
        let text = fs::read_to_string(directory.join(file)).ok()?;
        text.trim().parse().ok()
    }

    fn make(&self, cgroup: &Path) -> Result<(), NodeError> {
        for directory in self.directories(cgroup) {
            fs::create_dir_all(&directory).map_err(|source| NodeError::Write {
                path: directory.clone(),
                source,
            })?;
            if self.hierarchies.version() == Version::V2 && cgroup == self.cgroup {
                // Without systemd the controllers may not be enabled at the root.
                let root = directory.parent().into_iter();
                for group in root.chain([directory.as_path()]) {
                    self.hand_down_controllers(group)?;
                }
            }
        }
        Ok(())
    }

    /// On v2 a cgroup only has the controllers that the cgroup above it enables.
    fn hand_down_controllers(&self, group: &Path) -> Result<(), NodeError> {
        for controller in [Controller::Memory, Controller::Pids] {
            if self.hierarchies.dir(controller, Path::new("")).is_some() {
                let switch = format!("+{}", controller.as_str());
                write(&group.join("cgroup.subtree_control"), &switch)?;
            }
        }
        Ok(())
    }

    fn limit(
        &self,
        controller: Controller,
        v1: &str,
        v2: &str,
        value: &str,
    ) -> Result<(), NodeError> {
        let missing = || NodeError::NoController(controller.as_str());
        let directory = self
            .hierarchies
            .dir(controller, &self.cgroup)
            .ok_or_else(missing)?;
        let file = if self.hierarchies.version() == Version::V2 {
            v2
        } else {
            v1
        };
        let path = directory.join(file);
        if !path.exists() {
            return Err(missing());
        }
        write(&path, value)
    }

    fn directories(&self, cgroup: &Path) -> Vec<PathBuf> {
        directories(&self.hierarchies, cgroup)
    }

    /// The directory of a kubelet, on the small disk.
    pub fn kubelet(&self) -> PathBuf {
        self.directory.join("disk/kubelet")
    }

    /// The volume of a pod.
    pub fn volume(&self, pod: &str) -> PathBuf {
        let volumes = self.kubelet().join("pods").join(pod);
        volumes.join("volumes/kubernetes.io~empty-dir").join(VOLUME)
    }

    /// Mounts a tmpfs that only this process and its children see, so that it disappears with them.
    fn mount_disk(&self, bytes: u64) -> Result<(), NodeError> {
        let nothing = None::<&str>;
        let disk = |errno: nix::Error| NodeError::Disk {
            source: errno.into(),
        };
        unshare(CloneFlags::CLONE_NEWNS).map_err(disk)?;
        mount(
            nothing,
            "/",
            nothing,
            MsFlags::MS_PRIVATE | MsFlags::MS_REC,
            nothing,
        )
        .map_err(disk)?;
        let options = format!("size={bytes}");
        let place = self.directory.join("disk");
        mount(
            Some("evictd-demo"),
            &place,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .map_err(disk)
    }

    /// Removes the cgroups of an earlier demo that was killed.
    fn remove_leftovers(&self) {
        for root in self.directories(Path::new("")) {
            for name in evictd_kernel::cgroup::subdirectories(&root).unwrap_or_default() {
                let pid = name
                    .to_str()
                    .and_then(|name| name.strip_prefix(PREFIX))
                    .and_then(|pid| pid.parse::<u32>().ok());
                if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    remove(&self.hierarchies, Path::new(&name));
                }
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if self.directory.join("disk").exists() {
            let _ = nix::mount::umount(&self.directory.join("disk"));
        }
        remove(&self.hierarchies, &self.cgroup);
    }
}

/// Removes everything that the demo in the process `pid` made, once its pods have ended; they end when it does.
pub(crate) async fn clear_away(pid: u32) {
    let Ok(hierarchies) = Hierarchies::detect(Path::new(DEFAULT_ROOT)) else {
        return;
    };
    let cgroup = PathBuf::from(name_of(pid));
    for _ in 0..500 {
        if remove(&hierarchies, &cgroup) {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
}

fn name_of(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

/// The directories of this cgroup in the hierarchies that are used, without duplicates.
fn directories(hierarchies: &Hierarchies, cgroup: &Path) -> Vec<PathBuf> {
    let controllers = [Controller::Memory, Controller::Pids, Controller::Freezer];
    let mut directories: Vec<PathBuf> = controllers
        .into_iter()
        .filter_map(|controller| hierarchies.dir(controller, cgroup))
        .chain(hierarchies.unified(cgroup))
        .collect();
    directories.sort();
    directories.dedup();
    directories
}

/// Removes a node's cgroups and its directory; true if nothing is left of them.
fn remove(hierarchies: &Hierarchies, cgroup: &Path) -> bool {
    let mut places = directories(hierarchies, cgroup);
    for place in &places {
        remove_tree(place);
    }
    let directory = std::env::temp_dir().join(cgroup);
    let _ = fs::remove_dir_all(&directory);
    places.push(directory);
    !places.iter().any(|place| place.exists())
}

/// Removes a cgroup and all below. A cgroup can only be removed when it contains no process, and a frozen process
/// must be thawed to die.
fn remove_tree(directory: &Path) {
    for name in evictd_kernel::cgroup::subdirectories(directory).unwrap_or_default() {
        remove_tree(&directory.join(name));
    }
    let state = directory.join("freezer.state");
    if fs::read_to_string(&state).is_ok_and(|state| state.trim() != "THAWED") {
        let _ = fs::write(state, "THAWED");
    }
    let _ = fs::remove_dir(directory);
}

fn write(path: &Path, text: &str) -> Result<(), NodeError> {
    fs::write(path, text).map_err(|source| NodeError::Write {
        path: path.to_owned(),
        source,
    })
}
