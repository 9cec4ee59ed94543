//! A node whose memory runs short.

use crate::{
    Evicted,
    daemon::Daemon,
    pod::{HOG, PODS, end, enter, group_of},
};
use evictd_demo::{Node, NodeError};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Child,
    thread::sleep,
    time::{Duration, Instant},
};

/// What the process takes to cross the threshold, and where in it the threshold is.
const LAST_BYTES: u64 = 8 << 20;
/// What is left of the node's memory in the end: enough that the kernel has no reason to reclaim.
const SPARE_BYTES: u64 = 128 << 20;
/// How often the cgroup's usage is looked at to see the crossing.
const LOOK: Duration = Duration::from_micros(200);
/// By then the hog has taken the last of its memory.
const TAKEN: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_mins(1);

/// A bounded node with three small pods and the hog, which holds its memory but the last of it.
pub(crate) struct Round {
    hog: Child,
    others: Vec<Child>,
    node: Node,
    usage: PathBuf,
    limit: u64,
}

impl Round {
    pub(crate) fn prepare(memory: u64) -> Result<Self, NodeError> {
        let hierarchies = Hierarchies::detect(Path::new(DEFAULT_ROOT))?;
        let limit = memory + SPARE_BYTES;
        let bytes = i64::try_from(limit).expect("a limit fits");
        let mut node = Node::build(hierarchies.clone(), bytes, None, None)?;
        let file = match hierarchies.version() {
            Version::V2 => "memory.current",
            _ => "memory.usage_in_bytes",
        };
        let usage = hierarchies
            .dir(Controller::Memory, &node.cgroup)
            .expect("the node has a memory cgroup")
            .join(file);
        let pods = node.pod(PODS).expect("the pods' cgroup is made");
        if let (Version::V2, Some(dir)) = (
            hierarchies.version(),
            hierarchies.dir(Controller::Memory, &pods),
        ) {
            fs::write(dir.join("cgroup.subtree_control"), "+memory +pids")
                .expect("controllers are handed down");
        }
        let mut others = Vec::new();
        for number in 1..4 {
            others.push(enter(&mut node, number, &["--hold", "8Mi"]));
        }
        let hold = (memory - LAST_BYTES).to_string();
        let grow = ["--hold", &hold, "--grow-to", &memory.to_string()];
        let hog = enter(&mut node, HOG, &grow);
        Ok(Self {
            hog,
            others,
            node,
            usage,
            limit,
        })
    }

    /// The hog takes the last of its memory, and is killed with nothing in between.
    pub(crate) fn kill(mut self) -> Duration {
        let level = self.used() + LAST_BYTES / 2;
        self.cross(level);
        // Not asleep for longer than where evictd ends it: the kernel gives more time to who has slept.
        sleep(TAKEN);
        let group = Hierarchies::detect(Path::new(DEFAULT_ROOT))
            .expect("the cgroups are there")
            .unified(&self.node.cgroup.join(group_of(HOG)));
        let whole = group.map(|group| group.join("cgroup.kill"));
        let begun = Instant::now();
        let killed = whole.is_some_and(|file| fs::write(file, "1").is_ok());
        if !killed {
            self.hog.kill().expect("the hog can be killed");
        }
        self.hog.wait().expect("the hog ends");
        begun.elapsed()
    }

    /// The hog takes the last of its memory, and evictd ends it.
    pub(crate) fn evict(mut self) -> Evicted {
        let level = self.used() + LAST_BYTES / 2;
        let threshold = self.limit - level;
        let daemon = Daemon::start(&self.node, &format!("memory.available: '{threshold}'"), "");
        let crossed = self.cross(level);
        self.hog.wait().expect("the hog ends");
        daemon.evicted(crossed)
    }

    /// Has the hog take the last of its memory; returns when that level of usage is seen crossed.
    fn cross(&mut self, level: u64) -> Instant {
        let stdin = self.hog.stdin.as_mut().expect("its input is a pipe");
        stdin.write_all(b"\n").expect("the hog listens");
        let begun = Instant::now();
        let (mut highest, mut last) = (0, begun);
        loop {
            let (used, now) = (self.used(), Instant::now());
            if used >= level {
                return now;
            }
            // It was ended before this saw it cross: it crossed after the last look.
            if used + (1 << 20) < highest {
                return last;
            }
            (highest, last) = (used, now);
            assert!(begun.elapsed() < PATIENCE, "the hog never crosses");
            sleep(LOOK);
        }
    }

    fn used(&self) -> u64 {
        let text = fs::read_to_string(&self.usage).expect("the usage reads");
        text.trim().parse().expect("it is a number")
    }
}

impl Drop for Round {
    fn drop(&mut self) {
        end(self.others.iter_mut().chain([&mut self.hog]));
    }
}
