//! The built daemon beside a real container runtime: pods of an API server, each with a sandbox and containers that do what
//! the story needs. The runtime is a private containerd, or the one whose socket `EVICTD_CRI_SOCKET` names; what stops or
//! freezes it, or needs its files on a filesystem of the test's own, is left out with a given one, and says so.

mod deleted;
#[cfg(target_arch = "x86_64")]
mod faults;
mod limits;
mod pinned;
mod read_only;
mod removes;
mod respawns;
mod runtime_fails;
mod tiny_files;
mod writer;
mod young_writer;

use crate::cgroup_support::left_out;
use crate::cluster::Cluster;
use crate::daemon::Daemon;
use crate::node::EVICTD;
use crate::run_daemon::disk::{own_mounts, tmpfs};
use crate::run_daemon::limits::create;
use crate::run_daemon::reclaim::ext4;
use evictd_testkit::cri::{Containerd, Pod, has_ended};
use evictd_testkit::testing::wait_until;
use nix::mount::{MntFlags, umount2};
use serde_json::{Value, json};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

const APP: &str = "evictd.test/app:1";
const SCRATCH: &str = "volumes/kubernetes.io~empty-dir/scratch";
/// CRI's number for a container that runs.
const RUNNING: i32 = 1;

/// A node with a container runtime. Its fields end in the order in which they depend on each other.
pub(crate) struct Site {
    containerd: Containerd,
    logs: Logs,
    disk: Option<Disk>,
    /// Of the kubelet alone.
    nodefs: Option<Disk>,
    pub(crate) cluster: Cluster,
}

/// A filesystem of the test's own, with the volumes of pods and all that the runtime keeps.
struct Disk(PathBuf);

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = umount2(&self.0, MntFlags::MNT_DETACH);
    }
}

/// Directories of logs, where the kubelet has them: they are found nowhere else.
#[derive(Default)]
struct Logs(Vec<PathBuf>);

impl Drop for Logs {
    fn drop(&mut self) {
        for directory in &self.0 {
            let _ = fs::remove_dir_all(directory);
        }
        // If it is empty.
        let _ = fs::remove_dir("/var/log/pods");
    }
}

/// A pod with a sandbox.
struct Bound {
    name: String,
    uid: String,
    pod: Pod,
}

impl Site {
    /// None, having said so, where there are no cgroups or containers.
    pub(crate) fn new(test: &str) -> Option<Self> {
        let cluster = Cluster::new(test)?;
        Some(Self::with(Containerd::start(test)?, None, cluster))
    }

    /// The same with everything on an ext4 filesystem of so many MiB, in a file.
    fn on_disk(test: &str, mebibytes: u64) -> Option<Self> {
        let cluster = Cluster::new(test)?;
        if !own_mounts(test) {
            return None;
        }
        let (file, at) = (cluster.node.path("ext4"), cluster.node.path("disk"));
        let disk = Disk(ext4(test, &file, at, mebibytes)?);
        let containerd = Containerd::start_below(test, &disk.0)?;
        if !containerd.is_own() {
            left_out(
                test,
                "the files of this runtime are on a disk of the machine",
            );
            return None;
        }
        Some(Self::with(containerd, Some(disk), cluster))
    }

    /// The same with the kubelet's directory on a filesystem of its own, of as many MiB.
    fn apart(test: &str, mebibytes: u64) -> Option<Self> {
        let mut site = Self::on_disk(test, mebibytes)?;
        let at = site.cluster.node.path("nodefs");
        tmpfs(&at, &format!("size={mebibytes}m"));
        site.nodefs = Some(Disk(at));
        Some(site)
    }

    fn with(mut containerd: Containerd, disk: Option<Disk>, cluster: Cluster) -> Self {
        containerd.image(APP, 0).unwrap();
        Self {
            containerd,
            logs: Logs::default(),
            disk,
            nodefs: None,
            cluster,
        }
    }

    fn kubelet(&self) -> PathBuf {
        let disk = self.nodefs.as_ref().or(self.disk.as_ref());
        let disk = disk.map(|disk| disk.0.join("kubelet"));
        disk.unwrap_or_else(|| self.cluster.node.path("kubelet"))
    }

    /// The pod's emptyDir named `scratch`.
    fn scratch(&self, bound: &Bound) -> PathBuf {
        self.kubelet().join("pods").join(&bound.uid).join(SCRATCH)
    }

    /// A pod of the API server and the directories that a kubelet makes for it: its UID, and where its logs are.
    fn bind(&mut self, name: &str, containers: &Value, volumes: &Value) -> (String, PathBuf) {
        let uid = create(&self.cluster, name, containers, volumes);
        let logs = PathBuf::from(format!("/var/log/pods/shop_{name}_{uid}"));
        self.logs.0.push(logs.clone());
        fs::create_dir_all(self.kubelet().join("pods").join(&uid).join(SCRATCH)).unwrap();
        (uid, logs)
    }

    /// So many calm pods with a limit on local storage, known to the API server and the runtime.
    pub(crate) fn crowd(&mut self, count: usize) {
        let limits = json!({ "limits": { "ephemeral-storage": "1Gi" } });
        let containers = json!([{ "name": "main", "image": APP, "resources": limits }]);
        let pods: Vec<_> = (0..count)
            .map(|number| {
                let name = format!("calm-{number}");
                let (uid, logs) = self.bind(&name, &containers, &scratch(&json!("1Gi")));
                ("shop".to_owned(), name, uid, logs)
            })
            .collect();
        let sleeps = ["sleep", "2147483647"];
        self.containerd.crowd(&pods, APP, &sleeps).unwrap();
    }

    /// A pod of the API server, its sandbox and its directories.
    fn pod(&mut self, name: &str, containers: &Value, volumes: &Value) -> Bound {
        let (uid, logs) = self.bind(name, containers, volumes);
        let pod = self.containerd.pod_of(("shop", name, &uid), &logs).unwrap();
        let name = name.to_owned();
        Bound { name, uid, pod }
    }

    /// Runs this in a container `main` of the pod, with the emptyDir at `/scratch`.
    fn run(&self, bound: &Bound, script: &str) -> String {
        self.try_run(bound, script).unwrap()
    }

    fn try_run(&self, bound: &Bound, script: &str) -> io::Result<String> {
        let scratch = self.scratch(bound);
        let mounts: [(&Path, &str); 1] = [(&scratch, "/scratch")];
        let command = ["sh", "-c", script];
        self.containerd
            .container_with(&bound.pod, ("main", 0), APP, &command, &mounts)
    }

    /// Starts the pod anew in another sandbox, as a kubelet does with one whose sandbox has ended. The sandbox may be ended
    /// before its container is made, also again and again.
    fn start_again(&mut self, bound: &mut Bound, script: &str) -> String {
        let mut container = None;
        wait_until("a sandbox lives until its container is made", || {
            self.containerd.remove(&bound.pod);
            let (name, uid) = (&bound.name, &bound.uid);
            let logs = PathBuf::from(format!("/var/log/pods/shop_{name}_{uid}"));
            bound.pod = self.containerd.pod_of(("shop", name, uid), &logs).unwrap();
            container = match self.try_run(bound, script) {
                Err(error) if has_ended(&error) => None,
                made => Some(made.unwrap()),
            };
            container.is_some()
        });
        container.unwrap()
    }

    fn lives(&self, container: &str) -> bool {
        let all = self.containerd.containers().unwrap();
        all.iter()
            .any(|one| one.id == container && one.state == RUNNING)
    }

    /// The next daemon does not continue what the last one decided, which may not have ended when that was killed.
    fn forget(&self) {
        for directory in ["state", "run"] {
            let _ = fs::remove_dir_all(self.cluster.node.path(directory));
        }
    }

    pub(crate) fn lines(&self, more: &str) -> String {
        let filesystems = match (&self.nodefs, &self.disk) {
            _ if more.contains("filesystems:") => None,
            // The rest is found as the runtime tells.
            (Some(Disk(at)), _) => Some(format!("filesystems: {{nodefs: {}}}\n", at.display())),
            (None, Some(Disk(at))) => Some(all_on(at)),
            (None, None) => None,
        };
        format!(
            "{cluster}\nnodeCgroup: /{group}\ncgroupRoots: [/{group}]\nkubelet: {{rootDir: '{kubelet}'}}\n\
             containerRuntimeEndpoint: {socket}\n{filesystems}{more}",
            cluster = self.cluster.lines(),
            group = self.containerd.group(),
            kubelet = self.kubelet().display(),
            socket = self.containerd.socket().display(),
            filesystems = filesystems.unwrap_or_default(),
        )
    }

    fn daemon(&self, hard: &[(&str, &str)], more: &str) -> Daemon {
        Daemon::start(&self.cluster.node, hard, &self.lines(more))
    }

    /// The same with these rights; `None`, having said so, where a program that takes rights away is missing.
    fn daemon_with(
        &self,
        test: &str,
        rights: Rights,
        (hard, more): (&[(&str, &str)], &str),
    ) -> Option<Daemon> {
        if rights == Rights::Host {
            return Some(self.daemon(hard, more));
        }
        let found = Command::new("setpriv").arg("--version").output();
        if !found.is_ok_and(|output| output.status.success()) {
            left_out(test, "no setpriv, so not with the rights of the DaemonSet");
            return None;
        }
        let disks = [&self.disk, &self.nodefs];
        let read_only = disks.into_iter().flatten().map(|Disk(at)| {
            let at = at.display();
            format!("mount --bind {at} {at} && mount -o remount,bind,ro {at} && ")
        });
        let script = format!(
            "{}exec setpriv --bounding-set=-all,+kill,+dac_read_search,+ipc_lock {EVICTD} \"$@\"",
            read_only.collect::<String>()
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh"]);
        let lines = self.lines(more);
        Some(Daemon::start_by(&self.cluster.node, command, hard, &lines))
    }
}

/// What the daemon may do and see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rights {
    /// Everything, as a service of the node.
    Host,
    /// The capabilities of the DaemonSet, and its read-only mounts of the node's disks.
    DaemonSet,
}

impl Rights {
    const ALL: [Self; 2] = [Self::Host, Self::DaemonSet];
}

fn all_on(at: &Path) -> String {
    let at = at.display();
    format!("filesystems: {{nodefs: {at}, imagefs: {at}, containerfs: {at}}}\n")
}

/// One container without requests or limits.
fn plain() -> Value {
    json!([{ "name": "main", "image": APP }])
}

/// An emptyDir `scratch` with this limit.
fn scratch(limit: &Value) -> Value {
    json!([{ "name": "scratch", "emptyDir": { "sizeLimit": limit } }])
}
