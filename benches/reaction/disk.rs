//! A node whose disk runs full beside a container runtime that has nothing worth removing.

use crate::{
    Evicted,
    daemon::Daemon,
    pod::{HOG, end, enter, uid},
};
use evictd_demo::{Node, NodeError};
use evictd_kernel::cgroup::{DEFAULT_ROOT, Hierarchies};
use evictd_testkit::cri::{Double, State, wire};
use nix::sys::statvfs::statvfs;
use std::{
    fs,
    io::Write,
    path::Path,
    process::Child,
    thread::sleep,
    time::{Duration, Instant},
};

const MEMORY: i64 = 512 << 20;
const DISK: u64 = 256 << 20;
/// What each of the other pods has written.
const WRITTEN: usize = 8 << 20;
/// The hog crosses the threshold in the middle of what it writes.
const HOG_WRITES: &str = "96Mi";
const PER_SECOND: &str = "500Mi";
const THRESHOLD: u64 = 180 << 20;
/// How often the disk is looked at to see the crossing.
const LOOK: Duration = Duration::from_micros(200);
const PATIENCE: Duration = Duration::from_mins(1);

/// A bounded node with a small disk, three pods that have written something, and the hog, which has not.
pub(crate) struct Round {
    hog: Child,
    others: Vec<Child>,
    node: Node,
    runtime: Double,
}

impl Round {
    pub(crate) fn prepare() -> Result<Self, NodeError> {
        let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT))?;
        let mut node = Node::build(hierarchies, MEMORY, None, Some(DISK))?;
        let mut pod = |number, role: &[&str]| {
            let volume = node.volume(&uid(number));
            fs::create_dir_all(&volume).expect("the volume is made");
            if number != HOG {
                let file = volume.join("data");
                fs::write(file, vec![1; WRITTEN]).expect("the volume has room");
            }
            let file = volume.join("hog").display().to_string();
            enter(&mut node, number, &[role, &["--file", &file]].concat())
        };
        let others = (1..HOG)
            .map(|number| pod(number, &["--hold", "8Mi"]))
            .collect();
        let writes = ["--file-size", HOG_WRITES, "--per-second", PER_SECOND];
        let hog = pod(HOG, &writes);
        Ok(Self {
            hog,
            others,
            node,
            runtime: runtime(),
        })
    }

    /// The hog fills the disk, and evictd ends it.
    pub(crate) fn evict(mut self) -> Evicted {
        let place = self.node.directory.join("disk").display().to_string();
        let lines = format!(
            "filesystems: {{nodefs: {place}, imagefs: {place}, containerfs: {place}}}\nkubelet: {{rootDir: {place}/kubelet}}\n\
             imageGC: {{mode: pressure, minimumAge: 0s}}\ncontainerRuntimeEndpoint: {}\n",
            self.runtime.socket().display()
        );
        let daemon = Daemon::start(
            &self.node,
            &format!("nodefs.available: '{THRESHOLD}'"),
            &lines,
        );
        let crossed = self.cross();
        self.hog.wait().expect("the hog ends");
        daemon.evicted(crossed)
    }

    /// Has the hog write; returns when the threshold is seen crossed.
    fn cross(&mut self) -> Instant {
        let stdin = self.hog.stdin.as_mut().expect("its input is a pipe");
        stdin.write_all(b"\n").expect("the hog listens");
        let begun = Instant::now();
        while self.available() >= THRESHOLD {
            assert!(begun.elapsed() < PATIENCE, "the hog never crosses");
            sleep(LOOK);
        }
        Instant::now()
    }

    fn available(&self) -> u64 {
        let disk = statvfs(&self.node.directory.join("disk")).expect("the disk answers");
        disk.blocks_available() * disk.fragment_size()
    }
}

/// A runtime with an unused image that is smaller than any shortage.
fn runtime() -> Double {
    let image = wire::Image {
        id: "sha256:unused".to_owned(),
        size: 4096,
        ..wire::Image::default()
    };
    let state = State {
        images: vec![image],
        ..State::default()
    };
    Double::start(state).expect("the runtime listens")
}

impl Drop for Round {
    fn drop(&mut self) {
        end(self.others.iter_mut().chain([&mut self.hog]));
    }
}
