//! Removes the remains of a killed runtime: shims, containers, mounts and control groups.

use nix::mount::{MntFlags, umount2};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::Instant;

/// The processes that have this text in their command line.
fn processes(text: &str) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let this = Pid::this();
    numbers
        .map(Pid::from_raw)
        .filter(|pid| *pid != this)
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        })
        .collect()
}

/// The control groups of this name in every hierarchy, each before the one above it.
fn groups(name: &str) -> Vec<PathBuf> {
    fn below(directory: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                below(&entry.path(), found);
            }
        }
        found.push(directory.to_owned());
    }
    let root = Path::new("/sys/fs/cgroup");
    let entries = fs::read_dir(root).into_iter().flatten().flatten();
    let hierarchies = entries.map(|entry| entry.path()).chain([root.to_owned()]);
    let mut found = Vec::new();
    for top in hierarchies
        .map(|hierarchy| hierarchy.join(name))
        .filter(|top| top.is_dir())
    {
        below(&top, &mut found);
    }
    found
}

/// The sockets of shims, which are not below the state directory.
fn shims(directory: &Path) -> Vec<PathBuf> {
    let tasks = directory.join("state/io.containerd.runtime.v2.task/k8s.io");
    let entries = fs::read_dir(tasks).into_iter().flatten().flatten();
    let addresses = entries.filter_map(|task| fs::read_to_string(task.path().join("address")).ok());
    let paths =
        addresses.filter_map(|address| Some(address.trim().strip_prefix("unix://")?.into()));
    paths.collect()
}

/// Ends every process of the runtime below `directory` and of the groups named `group`, unmounts everything below the directory and
/// removes the groups. Tries for ten seconds, for killed processes take their time.
pub(crate) fn clean(directory: &Path, group: &str) {
    let deadline = Instant::now() + Duration::from_secs(10);
    let text = directory.display().to_string();
    let shims = shims(directory);
    loop {
        let groups = groups(group);
        let members = groups.iter().flat_map(|group| {
            let pids = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            pids.lines()
                .filter_map(|pid| pid.parse().ok())
                .map(Pid::from_raw)
                .collect::<Vec<_>>()
        });
        let alive: Vec<_> = processes(&text).into_iter().chain(members).collect();
        for pid in &alive {
            let _ = kill(*pid, Signal::SIGKILL);
        }
        let mounts = fs::read_to_string("/proc/thread-self/mounts").unwrap_or_default();
        let ours = mounts.lines().filter_map(|line| line.split(' ').nth(1));
        let ours: Vec<_> = ours
            .filter(|at| Path::new(at).starts_with(directory))
            .collect();
        for at in ours.iter().rev() {
            let _ = umount2(*at, MntFlags::MNT_DETACH);
        }
        for group in &groups {
            let _ = fs::remove_dir(group);
        }
        let clean = alive.is_empty() && ours.is_empty() && groups.is_empty();
        if clean || Instant::now() > deadline {
            break;
        }
        std::thread::yield_now();
    }
    for socket in shims {
        let _ = fs::remove_file(socket);
    }
    // The sockets of another containerd keep the directories.
    for empty in ["/run/containerd/s", "/run/containerd"] {
        let _ = fs::remove_dir(empty);
    }
}
