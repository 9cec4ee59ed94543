//! Containers that are real processes, each in cgroups of its own as a kubelet lays them out.
//!
//! The first process of a container gets SIGTERM only if it has a handler for it: it is the first of its process id
//! namespace. So most containers run on until SIGKILL.

use super::runtime::{Exits, KILLED, Runtime};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;

/// Enters as many directories as its first argument says, which are those after it, and becomes the rest.
const ENTER: &str = r#"n=$0; while [ "$n" -gt 0 ]; do echo $$ > "$1/cgroup.procs" || exit 1; shift; n=$((n-1)); done; exec "$@""#;

/// Who names a kubelet's cgroups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Driver {
    /// `kubepods/burstable/pod<UID>/<container>`
    Cgroupfs,
    /// `kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod<UID>.slice/cri-containerd-<container>.scope`
    Systemd,
}

/// SIGTERM in the masks of `/proc/PID/status`.
const TERM_BIT: u64 = 1 << 14;

#[derive(Debug)]
struct Running {
    pid: u32,
    process: OwnedFd,
    waiter: JoinHandle<()>,
}

impl Running {
    /// Whether its program has a handler for SIGTERM.
    fn handles_sigterm(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        caught.is_some_and(|mask| mask & TERM_BIT != 0)
    }
}

/// Runs a container's `command` and `args`, or sleeps, below directories that a test has made for it, one in each cgroup
/// hierarchy. Its processes end with it.
#[derive(Debug)]
pub struct Processes {
    roots: Vec<PathBuf>,
    driver: Driver,
    /// The program of an image.
    entrypoint: Vec<String>,
    running: BTreeMap<String, Running>,
    started: u64,
    /// Made here, and removed in the end: the outer ones first.
    made: Vec<PathBuf>,
}

impl Processes {
    /// Below these directories of cgroup hierarchies, one of each.
    pub fn new(roots: impl IntoIterator<Item = impl Into<PathBuf>>, driver: Driver) -> Self {
        Self {
            roots: roots.into_iter().map(Into::into).collect(),
            driver,
            entrypoint: Vec::new(),
            running: BTreeMap::new(),
            started: 0,
            made: Vec::new(),
        }
    }

    /// The same, where every image runs this program unless its container has a `command`.
    #[must_use]
    pub fn with_entrypoint(mut self, program: impl Into<String>) -> Self {
        self.entrypoint = vec![program.into()];
        self
    }

    /// The cgroups of a container, one in each hierarchy.
    fn make_groups(&mut self, pod: &Value, id: &str) -> io::Result<Vec<PathBuf>> {
        let levels = self.driver.levels(pod, id);
        let mut groups = Vec::new();
        for root in &self.roots {
            let mut group = root.clone();
            for level in &levels {
                // Only v2 has such a file, and only there must controllers be handed down.
                let _ = fs::write(group.join("cgroup.subtree_control"), "+memory +pids");
                group.push(level);
                if !group.exists() {
                    fs::create_dir(&group)?;
                    self.made.push(group.clone());
                }
            }
            groups.push(group);
        }
        Ok(groups)
    }

    fn words(&self, container: &Value) -> Vec<String> {
        let words = |field: &str| -> Vec<String> {
            let words = container[field].as_array().into_iter().flatten();
            words
                .filter_map(|word| word.as_str().map(ToOwned::to_owned))
                .collect()
        };
        let (mut command, arguments) = (words("command"), words("args"));
        if command.is_empty() {
            command.clone_from(&self.entrypoint);
        }
        command.extend(arguments);
        if command.is_empty() {
            command = vec!["sleep".to_owned(), "infinity".to_owned()];
        }
        command
    }

    fn signal(&self, id: &str, signal: Signal) {
        if let Some(running) = self.running.get(id) {
            // It may have ended by itself.
            let _ = pidfd_send_signal(&running.process, signal);
        }
    }
}

impl Driver {
    /// The names of a container's cgroup and those above it, the outermost first. A Guaranteed pod has no class.
    pub(super) fn levels(self, pod: &Value, id: &str) -> Vec<String> {
        let class = match pod["status"]["qosClass"].as_str() {
            Some("Burstable") => Some("burstable"),
            Some("BestEffort") => Some("besteffort"),
            _ => None,
        };
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        match self {
            Self::Cgroupfs => [Some("kubepods"), class]
                .into_iter()
                .flatten()
                .map(ToOwned::to_owned)
                .chain([format!("pod{uid}"), id.to_owned()])
                .collect(),
            Self::Systemd => {
                let tree = class.map_or("kubepods".to_owned(), |class| format!("kubepods-{class}"));
                let pod = format!("{tree}-pod{}.slice", uid.replace('-', "_"));
                let class = class.map(|_| format!("{tree}.slice"));
                ["kubepods.slice".to_owned()]
                    .into_iter()
                    .chain(class)
                    .chain([pod, format!("cri-containerd-{id}.scope")])
                    .collect()
            }
        }
    }
}

impl Runtime for Processes {
    fn start(&mut self, pod: &Value, container: &Value, exits: &Exits) -> io::Result<String> {
        self.started += 1;
        let id = format!("{:064x}", self.started);
        let groups = self.make_groups(pod, &id)?;
        // The shell enters the cgroups itself and then becomes the program, so that nothing runs outside them.
        let mut child = Command::new("sh")
            .args(["-c", ENTER])
            .arg(groups.len().to_string())
            .args(&groups)
            .args(self.words(container))
            .stdin(Stdio::null())
            .spawn()?;
        let pid = child.id();
        // A pidfd cannot name another process after the pid is reused.
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let (exits, ended) = (exits.clone(), id.clone());
        let waiter = std::thread::spawn(move || {
            let status = child.wait().ok();
            let code = status.and_then(|status| status.code()).unwrap_or(KILLED);
            // Who is still in it keeps it.
            for group in groups {
                let _ = fs::remove_dir(group);
            }
            // The kubelet may have stopped.
            let _ = exits.send((ended, code));
        });
        let running = Running {
            pid,
            process,
            waiter,
        };
        self.running.insert(id.clone(), running);
        Ok(id)
    }

    fn terminate(&mut self, id: &str) {
        // As pid 1 of a container the program would ignore a signal without a handler. Here it is not pid 1.
        if self.running.get(id).is_some_and(Running::handles_sigterm) {
            self.signal(id, Signal::TERM);
        }
    }

    fn kill(&mut self, id: &str) {
        self.signal(id, Signal::KILL);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for running in std::mem::take(&mut self.running).into_values() {
            let _ = pidfd_send_signal(running.process, Signal::KILL);
            // The waiter removes the cgroup, which must happen before its parent is removed.
            let _ = running.waiter.join();
        }
        for group in self.made.iter().rev() {
            // Most have ended already.
            let _ = fs::remove_dir(group);
        }
    }
}
