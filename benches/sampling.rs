//! One look at this machine, beside the bare system calls that it needs.
//!
//! The look may cost at most three times as much, and allocates nothing.

#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]

use divan::{AllocProfiler, Bencher, black_box};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_kernel::signals::{FilesystemPaths, MemoryAvailable, RENEWAL, Sampler, SignalSources};
use jiff::{SignedDuration, Timestamp};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::statvfs::statvfs;
use std::fs::File;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

#[global_allocator]
static ALLOCATOR: AllocProfiler = AllocProfiler::system();

const FILESYSTEM: &str = "/";

fn main() {
    divan::main();
}

/// Seconds between two looks: an ordinary one, and one that also renews what may be older.
const SECONDS: [i64; 2] = [1, RENEWAL.as_secs()];

#[divan::bench(args = SECONDS)]
fn look(bencher: Bencher<'_, '_>, seconds: i64) {
    let mut now = Timestamp::UNIX_EPOCH;
    let mut sampler = Sampler::new(&SignalSources {
        proc_root: "/proc".into(),
        hierarchies: Hierarchies::detect(Path::new(DEFAULT_ROOT)).ok(),
        node_cgroup: None,
        pods_cgroups: Vec::new(),
        memory_available: MemoryAvailable::MemAvailable,
        filesystems: FilesystemPaths {
            nodefs: Some(FILESYSTEM.into()),
            ..FilesystemPaths::default()
        },
    })
    .expect("this machine has signals");
    // The first looks open the files, and learn that the filesystem is a local one.
    while sampler.layout().is_none() {
        sampler.sample(now);
    }
    bencher.bench_local(|| {
        now += SignedDuration::from_secs(seconds);
        sampler.sample(black_box(now))
    });
}

#[divan::bench(args = SECONDS)]
fn bare_system_calls(bencher: Bencher<'_, '_>, seconds: i64) {
    let files = files(seconds >= RENEWAL.as_secs());
    let mounts = File::open("/proc/self/mountinfo").expect("the mount table opens");
    let mut buffer = vec![0; 16 * 1024];
    bencher.bench_local(|| {
        for file in &files {
            black_box(file.read_at(&mut buffer, 0)).expect("a kernel file reads");
        }
        let mut wanted = [PollFd::new(mounts.as_fd(), PollFlags::POLLPRI)];
        black_box(poll(&mut wanted, PollTimeout::ZERO)).expect("the mount table polls");
        black_box(statvfs(FILESYSTEM)).expect("the filesystem answers");
    });
}

/// The files that a look reads, as far as this machine has them.
fn files(all: bool) -> Vec<File> {
    let mut paths = vec!["/proc/meminfo".into(), "/proc/loadavg".into()];
    if all {
        paths.extend(renewed());
    }
    let open = paths.into_iter().filter_map(|path| File::open(path).ok());
    open.collect()
}

fn renewed() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = [
        "sys/kernel/pid_max",
        "sys/kernel/threads-max",
        "pressure/memory",
        "pressure/io",
    ]
    .map(|name| Path::new("/proc").join(name))
    .into();
    if let Ok(hierarchies) = Hierarchies::detect(Path::new(DEFAULT_ROOT))
        && let Some(root) = hierarchies.dir(Controller::Memory, Path::new(""))
    {
        paths.push(root.join("memory.stat"));
        if hierarchies.version() != Version::V2 {
            paths.push(root.join("memory.usage_in_bytes"));
        }
    }
    paths
}
