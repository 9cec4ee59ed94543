//! A small node for one test: a bounded cgroup, pods of real processes in it, and a directory for everything else.

use crate::cgroup_support::TestCgroup;
use evictd_kernel::cgroup::{Controller, Hierarchies, Version};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use tempfile::TempDir;

pub(crate) const EVICTD: &str = env!("CARGO_BIN_EXE_evictd");
/// The node's memory.
pub(crate) const NODE_MIB: u64 = 192;

/// The node; dropping it ends its processes and removes everything.
pub(crate) struct Node {
    pub(crate) group: TestCgroup,
    pub(crate) directory: TempDir,
    /// What `run` below the directory leads to, where this machine has a place in memory for all.
    memory: Option<TempDir>,
    hierarchies: Hierarchies,
}

/// A process that plays a pod: holds memory, and takes more when it is told to. It ends with this value.
pub(crate) struct Worker {
    child: Child,
    stdin: ChildStdin,
}

/// What is special about a pod.
#[derive(Default)]
pub(crate) struct Traits {
    /// Merged into `metadata`.
    pub(crate) metadata: Value,
    /// Merged into `spec`.
    pub(crate) spec: Value,
}

impl Node {
    /// None, having said so, where no cgroups can be made.
    pub(crate) fn new(test: &str) -> Option<Self> {
        Self::named(test, "")
    }

    /// The same, whose cgroup is one that a kubelet puts pods into: they are found by their UIDs.
    pub(crate) fn of_kubelet(test: &str) -> Option<Self> {
        Self::named(test, "-kubepods.slice")
    }

    fn named(test: &str, suffix: &str) -> Option<Self> {
        Self::within(test, suffix, &["memory", "pids", "freezer", "unified"])
    }

    /// The same in these hierarchies of cgroup v1 only.
    pub(crate) fn within(test: &str, suffix: &str, hierarchies: &[&str]) -> Option<Self> {
        let group = TestCgroup::named(test, hierarchies, suffix)?;
        let hierarchies =
            Hierarchies::detect(Path::new(evictd_kernel::cgroup::DEFAULT_ROOT)).unwrap();
        let node = Self {
            group,
            directory: tempfile::tempdir().unwrap(),
            memory: tempfile::tempdir_in("/dev/shm").ok(),
            hierarchies,
        };
        if let Some(memory) = &node.memory {
            symlink(memory.path(), node.path("run")).unwrap();
        }
        if node.hierarchies.version() == Version::V2 {
            fs::write(node.group.dir("cgroup.subtree_control"), "+memory +pids").unwrap();
        }
        let bytes = (NODE_MIB << 20).to_string();
        node.limit(
            Controller::Memory,
            "memory.limit_in_bytes",
            "memory.max",
            &bytes,
        );
        for directory in ["manifests", "static"] {
            fs::create_dir(node.path(directory)).unwrap();
        }
        Some(node)
    }

    /// What the group of one pod may take.
    pub(crate) fn limit_memory_of(&self, pod: &str, bytes: u64) {
        let group = self.group.make(pod);
        let directory = self.hierarchies.dir(Controller::Memory, &group).unwrap();
        let file = match self.hierarchies.version() {
            Version::V2 => "memory.max",
            Version::V1 | Version::Hybrid => "memory.limit_in_bytes",
        };
        fs::write(directory.join(file), bytes.to_string()).unwrap();
    }

    /// A file of the node's group in the cgroup2 tree, where there is one.
    pub(crate) fn unified(&self, file: &str) -> Option<PathBuf> {
        Some(self.hierarchies.unified(&self.group.relative)?.join(file))
    }

    pub(crate) fn limit_pids(&self, most: u32) {
        self.limit(Controller::Pids, "pids.max", "pids.max", &most.to_string());
    }

    /// How many processes this group below the node's may have; returns the group.
    pub(crate) fn limit_pids_of(&self, below: &str, most: u32) -> PathBuf {
        let group = self.group.make(below);
        let directory = self.hierarchies.dir(Controller::Pids, &group).unwrap();
        fs::write(directory.join("pids.max"), most.to_string()).unwrap();
        group
    }

    /// Process ids that the node's pods, and who runs beside them by [`Self::beside_the_pods`], hold now.
    pub(crate) fn pids(&self) -> u32 {
        let directory = self.hierarchies.dir(Controller::Pids, &self.group.relative);
        let text = fs::read_to_string(directory.unwrap().join("pids.current")).unwrap();
        text.trim().parse().unwrap()
    }

    /// A program whose process ids are taken from those of the node.
    pub(crate) fn beside_the_pods(&self, program: &str) -> Command {
        let group = self.group.make("beside");
        let directory = self.hierarchies.dir(Controller::Pids, &group).unwrap();
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(directory.join("cgroup.procs"))
            .arg(program);
        command
    }

    fn limit(&self, controller: Controller, v1: &str, v2: &str, value: &str) {
        let directory = self.hierarchies.dir(controller, &self.group.relative);
        let file = match self.hierarchies.version() {
            Version::V2 => v2,
            Version::V1 | Version::Hybrid => v1,
        };
        fs::write(directory.unwrap().join(file), value).unwrap();
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.directory.path().join(below)
    }

    /// Starts a worker with these arguments in its own cgroup below the node's; it holds what it holds on return.
    pub(crate) fn worker(&self, name: &str, arguments: &str) -> Worker {
        self.worker_by("exec \"$@\"", name, arguments)
    }

    /// The same, deaf to SIGTERM.
    pub(crate) fn deaf_worker(&self, name: &str, arguments: &str) -> Worker {
        self.worker_by("trap '' TERM; exec \"$@\"", name, arguments)
    }

    fn worker_by(&self, script: &str, name: &str, arguments: &str) -> Worker {
        let cgroup = self.group.make(name);
        let mut child = Command::new("/bin/sh")
            .args(["-c", script, "sh", EVICTD, "worker"])
            .args(arguments.split_ascii_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        self.enter(&cgroup, child.id());
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(b"\n").unwrap();
        let mut holds = [0];
        // It may be evicted before it says so.
        let _ = child.stdout.take().unwrap().read(&mut holds);
        Worker { child, stdin }
    }

    /// Moves a process into this cgroup of every hierarchy.
    pub(crate) fn enter(&self, cgroup: &Path, process: u32) {
        for mount in self.hierarchies.mounts() {
            let procs = mount.join(cgroup).join("cgroup.procs");
            if procs.exists() {
                fs::write(procs, process.to_string()).unwrap();
            }
        }
    }

    /// Writes a pod's manifest; its cgroup is the one of its name below the node's.
    pub(crate) fn admit(&self, name: &str, traits: Traits) {
        let cgroup = self.group.relative.join(name);
        self.admit_to("manifests", name, &cgroup, traits);
    }

    pub(crate) fn admit_to(&self, directory: &str, name: &str, cgroup: &Path, traits: Traits) {
        let path = self.path(directory).join(format!("{name}.yaml"));
        fs::write(path, manifest(name, cgroup, traits)).unwrap();
    }

    /// A pod without requests that holds memory.
    pub(crate) fn pod(&self, name: &str, arguments: &str, traits: Traits) -> Worker {
        let worker = self.worker(name, arguments);
        self.admit(name, traits);
        worker
    }
}

/// A `v1.Pod` in the namespace `shop`.
pub(crate) fn manifest(name: &str, cgroup: &Path, traits: Traits) -> String {
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "shop", "annotations": { "evictd.dev/cgroup": cgroup },
        },
        "spec": { "containers": [{ "name": "main", "image": "none" }] },
    });
    merge(&mut pod["metadata"], traits.metadata);
    merge(&mut pod["spec"], traits.spec);
    pod.to_string()
}

fn merge(into: &mut Value, other: Value) {
    match (into, other) {
        (_, Value::Null) => {}
        (Value::Object(into), Value::Object(other)) => {
            for (key, value) in other {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, other) => *into = other,
    }
}

/// Requests so much memory.
pub(crate) fn requests(memory: &str) -> Traits {
    let resources = json!({ "requests": { "memory": memory, "cpu": "10m" } });
    let container = json!({ "name": "main", "image": "none", "resources": resources });
    spec(json!({ "containers": [container] }))
}

pub(crate) fn spec(spec: Value) -> Traits {
    Traits {
        spec,
        ..Traits::default()
    }
}

pub(crate) fn metadata(metadata: Value) -> Traits {
    Traits {
        metadata,
        ..Traits::default()
    }
}

impl Worker {
    /// Lets it take what it takes in the end.
    pub(crate) fn grow(&mut self) {
        self.stdin.write_all(b"\n").unwrap();
    }

    pub(crate) fn lives(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    pub(crate) fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}
