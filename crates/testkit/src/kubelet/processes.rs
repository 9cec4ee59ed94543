//! Containers that are real processes, each in a cgroup directory of its own as a kubelet lays them out.

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

/// Enters the directory that is its first argument and becomes the rest.
const ENTER: &str = r#"echo $$ > "$0/cgroup.procs" && exec "$@""#;

/// Runs a container's `command` and `args`, or sleeps, below `kubepods` in a directory that a test has made for it. What
/// it starts ends with it.
#[derive(Debug)]
pub struct Processes {
    root: PathBuf,
    running: BTreeMap<String, (OwnedFd, JoinHandle<()>)>,
    started: u64,
    /// Made here, and removed in the end: the outer ones first.
    made: Vec<PathBuf>,
}

impl Processes {
    /// Below this directory of a cgroup hierarchy.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            running: BTreeMap::new(),
            started: 0,
            made: Vec::new(),
        }
    }

    /// The cgroup of a container: `kubepods/burstable/pod<UID>/<id>`, without the class for a Guaranteed pod.
    fn make_group(&mut self, pod: &Value, id: &str) -> io::Result<PathBuf> {
        let class = match pod["status"]["qosClass"].as_str() {
            Some("Burstable") => Some("burstable".to_owned()),
            Some("BestEffort") => Some("besteffort".to_owned()),
            _ => None,
        };
        let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
        let own = ["kubepods".to_owned()].into_iter().chain(class);
        let mut group = self.root.clone();
        for level in own.chain([format!("pod{uid}"), id.to_owned()]) {
            group.push(level);
            if !group.exists() {
                fs::create_dir(&group)?;
                self.made.push(group.clone());
            }
        }
        Ok(group)
    }

    fn signal(&self, id: &str, signal: Signal) {
        if let Some((process, _)) = self.running.get(id) {
            // It may have ended by itself.
            let _ = pidfd_send_signal(process, signal);
        }
    }
}

impl Runtime for Processes {
    fn start(&mut self, pod: &Value, container: &Value, exits: &Exits) -> io::Result<String> {
        self.started += 1;
        let id = format!("{:064x}", self.started);
        let group = self.make_group(pod, &id)?;
        let words = ["command", "args"].map(|field| container[field].as_array());
        let mut words: Vec<&str> = words
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        if words.is_empty() {
            words = vec!["sleep", "infinity"];
        }
        let mut child = Command::new("sh")
            .args(["-c", ENTER])
            .arg(&group)
            .args(words)
            .stdin(Stdio::null())
            .spawn()?;
        let process = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        let (exits, ended) = (exits.clone(), id.clone());
        let waiter = std::thread::spawn(move || {
            let status = child.wait().ok();
            let code = status.and_then(|status| status.code()).unwrap_or(KILLED);
            // Who is still in it keeps it.
            let _ = fs::remove_dir(&group);
            // Nobody listens to the end of a kubelet that is gone.
            let _ = exits.send((ended, code));
        });
        self.running.insert(id.clone(), (process, waiter));
        Ok(id)
    }

    fn terminate(&mut self, id: &str) {
        self.signal(id, Signal::TERM);
    }

    fn kill(&mut self, id: &str) {
        self.signal(id, Signal::KILL);
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for (process, waiter) in std::mem::take(&mut self.running).into_values() {
            let _ = pidfd_send_signal(process, Signal::KILL);
            let _ = waiter.join();
        }
        for group in self.made.iter().rev() {
            // Most are gone already.
            let _ = fs::remove_dir(group);
        }
    }
}
