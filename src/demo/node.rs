//! The small node of the demo: one bounded cgroup, the pods' cgroups in it, and a small disk where a play needs one.
//! Everything is removed again, whatever happens.

use crate::cgroup::{Controller, Hierarchies, Version};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use std::{
    fs, io,
    path::{Path, PathBuf},
};

const PREFIX: &str = "evictd-demo-";

/// Why there is no real node to play on.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// Not root.
    #[error("making cgroups needs root (user id 0); this is user id {0}")]
    NotRoot(u32),
    /// No cgroups, or none with the controller.
    #[error("there is no {0} cgroup controller to bound the node with")]
    NoController(&'static str),
    /// A file of a cgroup.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The small disk.
    #[error("cannot mount a small filesystem for the play: {0}")]
    Disk(nix::Error),
}

/// The node; dropping it ends what is in it and removes it.
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
    /// Makes the node with these bounds.
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
        let name = format!("{PREFIX}{}", std::process::id());
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
        for directory in ["manifests", "disk"] {
            let path = node.directory.join(directory);
            fs::create_dir_all(&path).map_err(|source| NodeError::Write { path, source })?;
        }
        if let Some(bytes) = disk_bytes {
            node.mount_disk(bytes)?;
        }
        Ok(node)
    }

    /// Makes the cgroup of a pod.
    pub fn pod(&mut self, name: &str) -> Result<PathBuf, NodeError> {
        let cgroup = self.cgroup.join(name);
        self.make(&cgroup)?;
        self.pods.push(cgroup.clone());
        Ok(cgroup)
    }

    /// Puts a process into a cgroup, in every hierarchy.
    pub fn enter(&self, cgroup: &Path, pid: u32) -> Result<(), NodeError> {
        for directory in self.directories(cgroup) {
            write(&directory.join("cgroup.procs"), &pid.to_string())?;
        }
        Ok(())
    }

    /// How often the kernel's OOM killer has struck in it.
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
            let own: u64 = line
                .and_then(|count| count.trim().parse().ok())
                .unwrap_or(0);
            // On v2 the node's count holds its pods' already.
            kills = if self.hierarchies.version() == Version::V2 {
                kills.max(own)
            } else {
                kills + own
            };
        }
        kills
    }

    /// Memory that a pod's cgroup holds, in bytes.
    pub fn memory_of(&self, cgroup: &Path) -> Option<i64> {
        let directory = self.hierarchies.dir(Controller::Memory, cgroup)?;
        let file = match self.hierarchies.version() {
            Version::V2 => "memory.current",
            _ => "memory.usage_in_bytes",
        };
        fs::read_to_string(directory.join(file))
            .ok()?
            .trim()
            .parse()
            .ok()
    }

    fn make(&self, cgroup: &Path) -> Result<(), NodeError> {
        for directory in self.directories(cgroup) {
            fs::create_dir_all(&directory).map_err(|source| NodeError::Write {
                path: directory.clone(),
                source,
            })?;
            if self.hierarchies.version() == Version::V2 && cgroup == self.cgroup {
                write(&directory.join("cgroup.subtree_control"), "+memory +pids")?;
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
        write(&directory.join(file), value)
    }

    /// The directory of this cgroup in each hierarchy that matters, each once.
    fn directories(&self, cgroup: &Path) -> Vec<PathBuf> {
        let controllers = [Controller::Memory, Controller::Pids, Controller::Freezer];
        let mut directories: Vec<PathBuf> = controllers
            .into_iter()
            .filter_map(|controller| self.hierarchies.dir(controller, cgroup))
            .chain(self.hierarchies.unified(cgroup))
            .collect();
        directories.sort();
        directories.dedup();
        directories
    }

    /// A tmpfs that only this process and its children see, so that it goes with them.
    fn mount_disk(&self, bytes: u64) -> Result<(), NodeError> {
        let nothing = None::<&str>;
        unshare(CloneFlags::CLONE_NEWNS).map_err(NodeError::Disk)?;
        mount(
            nothing,
            "/",
            nothing,
            MsFlags::MS_PRIVATE | MsFlags::MS_REC,
            nothing,
        )
        .map_err(NodeError::Disk)?;
        let options = format!("size={bytes}");
        let place = self.directory.join("disk");
        mount(
            Some("evictd-demo"),
            &place,
            Some("tmpfs"),
            MsFlags::empty(),
            Some(options.as_str()),
        )
        .map_err(NodeError::Disk)
    }

    /// Removes what a demo left behind that was itself killed.
    fn remove_leftovers(&self) {
        for root in self.directories(Path::new("")) {
            for name in crate::cgroup::subdirectories(&root).unwrap_or_default() {
                let pid = name
                    .strip_prefix(PREFIX)
                    .and_then(|pid| pid.parse::<u32>().ok());
                if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
                    remove_tree(&root.join(&name));
                    let _ = fs::remove_dir_all(std::env::temp_dir().join(name));
                }
            }
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for directory in self.directories(&self.cgroup.clone()) {
            remove_tree(&directory);
        }
        if self.directory.join("disk").exists() {
            let _ = nix::mount::umount(&self.directory.join("disk"));
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A cgroup can be removed once nothing lives in it; the pods were ended before, and are reaped in a moment.
fn remove_tree(directory: &Path) {
    for name in crate::cgroup::subdirectories(directory).unwrap_or_default() {
        remove_tree(&directory.join(name));
    }
    let _ = fs::remove_dir(directory);
}

fn write(path: &Path, text: &str) -> Result<(), NodeError> {
    fs::write(path, text).map_err(|source| NodeError::Write {
        path: path.to_owned(),
        source,
    })
}
