//! From the moment a threshold is crossed to the end of the last process, beside a bare kill of the same cgroup.
//!
//! Both are measured in one run, in turn: the same cgroup, the same process, as much memory. Crossing to dead may take
//! at most 1.25 times as long as the bare kill (medians of 20). `EVICTD_PROGRAM=FILE` measures that program, else it is
//! the one built for the bench; `EVICTD_MEMORY=512Mi` sets how much the process holds, and `EVICTD_ROUNDS=5` how often.
//! `cargo test` runs one short round, to see that it works.

#![allow(clippy::expect_used, reason = "a bench has nobody to hand an error to")]
#![allow(clippy::print_stdout, reason = "this is how it reports")]
#![allow(
    clippy::disallowed_methods,
    reason = "its one thread has nothing else to do"
)]

use evictd_demo::node::{Node, NodeError};
use evictd_kernel::cgroup::{Controller, DEFAULT_ROOT, Hierarchies, Version};
use evictd_pod::Quantity;
use jiff::Timestamp;
use serde_json::Value;
use std::{
    env, fs,
    io::{Read, Write},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

/// The most that crossing to dead may take, in bare kills.
const AT_MOST: f64 = 1.25;
/// What the process takes to cross the threshold, and where in it the threshold is.
const LAST_BYTES: u64 = 8 << 20;
/// What is left of the node's memory in the end: enough that the kernel has no reason to reclaim.
const SPARE_BYTES: u64 = 128 << 20;
/// How often the cgroup's usage is looked at to see the crossing.
const LOOK: Duration = Duration::from_micros(200);
/// The cgroup of all pods.
const PODS: &str = "kubepods";
/// The number of the hog; other pods have others.
const HOG: u32 = 4;
/// By then the hog has taken the last of its memory.
const TAKEN: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_mins(1);

fn main() {
    let measures = env::args().any(|argument| argument == "--bench");
    let set = |name: &str, measured: &str, tried: &str| {
        let default = if measures { measured } else { tried };
        env::var(name).unwrap_or_else(|_| default.to_owned())
    };
    let memory: Quantity = set("EVICTD_MEMORY", "1Gi", "64Mi")
        .parse()
        .expect("EVICTD_MEMORY is a quantity");
    let memory = u64::try_from(memory.value()).expect("memory is positive");
    let rounds: u32 = set("EVICTD_ROUNDS", "20", "1")
        .parse()
        .expect("EVICTD_ROUNDS is a number");
    let mut bare = Vec::new();
    let mut evicted = Vec::new();
    for _ in 0..rounds {
        match Round::prepare(memory) {
            Ok(round) => bare.push(round.kill()),
            Err(why) => return println!("LEFT OUT reaction: {why}"),
        }
        match Round::prepare(memory) {
            Ok(round) => evicted.push(round.evict()),
            Err(why) => return println!("LEFT OUT reaction: {why}"),
        }
    }
    report(memory, bare, &evicted);
}

/// How long an eviction took.
struct Evicted {
    /// From the crossing to the end of the last process.
    all: Duration,
    /// From the crossing to SIGKILL.
    to_kill: Duration,
}

fn report(memory: u64, bare: Vec<Duration>, evicted: &[Evicted]) {
    let bare = median(bare);
    let all = median(evicted.iter().map(|one| one.all).collect());
    let to_kill = median(evicted.iter().map(|one| one.to_kill).collect());
    let ratio = all.as_secs_f64() / bare.as_secs_f64();
    println!(
        "{} MiB, medians of {}: bare kill {bare:.1?}; crossing to dead {all:.1?}, of that {to_kill:.1?} to SIGKILL; \
         ratio {ratio:.2} (at most {AT_MOST})",
        memory >> 20,
        evicted.len(),
    );
}

fn median(mut of: Vec<Duration>) -> Duration {
    of.sort();
    let (low, high) = (of[(of.len() - 1) / 2], of[of.len() / 2]);
    (low + high) / 2
}

/// A bounded node with three small pods and the hog, which holds its memory but the last of it.
struct Round {
    hog: Child,
    others: Vec<Child>,
    node: Node,
    usage: PathBuf,
    limit: u64,
}

impl Round {
    fn prepare(memory: u64) -> Result<Self, NodeError> {
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
        // Only a cgroup of such a name contains pods.
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
    fn kill(mut self) -> Duration {
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
    fn evict(mut self) -> Evicted {
        let level = self.used() + LAST_BYTES / 2;
        let threshold = self.limit - level;
        let mut daemon = Daemon::start(&self.node, threshold);
        let crossed = self.cross(level);
        self.hog.wait().expect("the hog ends");
        let all = crossed.elapsed();
        let dead = Timestamp::now();
        let record = daemon.record();
        let decided: Timestamp = (record["time"].as_str())
            .and_then(|time| time.parse().ok())
            .expect("a record has its time");
        let killed = record["outcome"]["killedSeconds"].as_f64();
        let since_decision = dead.duration_since(decided).as_secs_f64();
        let dying = since_decision - killed.expect("it was killed");
        Evicted {
            all,
            to_kill: all.saturating_sub(Duration::from_secs_f64(dying.max(0.0))),
        }
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
        for child in self.others.iter_mut().chain([&mut self.hog]) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn program() -> PathBuf {
    env::var_os("EVICTD_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_evictd").into(), Into::into)
}

fn uid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The name of a pod's cgroup, as a kubelet has it.
fn group_of(number: u32) -> String {
    format!("{PODS}/pod{}", uid(number))
}

/// Starts a pod's process, and writes its manifest once it holds its memory.
fn enter(node: &mut Node, number: u32, role: &[&str]) -> Child {
    let cgroup = node.pod(&group_of(number)).expect("a pod's cgroup is made");
    let mut child = Command::new(program())
        .arg("worker")
        .args(role)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the worker starts");
    node.enter(&cgroup, child.id())
        .expect("it enters its cgroup");
    let stdin = child.stdin.as_mut().expect("its input is a pipe");
    stdin.write_all(b"\n").expect("the worker listens");
    let stdout = child.stdout.as_mut().expect("its output is a pipe");
    stdout.read_exact(&mut [0]).expect("it holds its memory");
    // A Guaranteed pod's cgroup has no class above it.
    let manifest = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: pod-{number}, namespace: bench, uid: {}}}\n\
         spec:\n  containers: [{{name: main, image: bench, resources: {{limits: {{cpu: 1, memory: 16Mi}}}}}}]\n",
        uid(number),
    );
    let file = format!("manifests/{number}.yaml");
    let file = node.directory.join(file);
    fs::write(file, manifest).expect("the manifest is written");
    child
}

struct Daemon {
    process: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Returns once it watches the node.
    fn start(node: &Node, threshold: u64) -> Self {
        let (place, cgroup) = (node.directory.display(), node.cgroup.display());
        let config = format!(
            "apiVersion: evictd.dev/v1alpha1
kind: EvictionConfiguration
nodeName: bench
nodeCgroup: {cgroup}
cgroupRoots: [{cgroup}]
evictionHard: {{memory.available: '{threshold}', nodefs.available: null, nodefs.inodesFree: null, imagefs.available: null, imagefs.inodesFree: null, pid.available: null}}
pods: {{source: manifests, manifests: {place}/manifests, staticPodPath: ''}}
metrics: {{address: ''}}
socket: {place}/evictd.sock
stateDirectory: {place}/state
runtimeDirectory: {place}/run
"
        );
        let file = node.directory.join("evictd.yaml");
        fs::write(&file, config).expect("the configuration is written");
        let process = Command::new(program())
            .arg("run")
            .arg("--config")
            .arg(&file)
            .env("MALLOC_ARENA_MAX", "1")
            .env_remove("KUBECONFIG")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the daemon starts");
        let mut daemon = Self {
            process,
            socket: node.directory.join("evictd.sock"),
        };
        daemon.until("it knows all pods", |daemon| {
            let active = daemon.get("status")?["pods"]["active"].as_u64();
            (active == Some(4)).then_some(())
        });
        // Until then it samples as often as at its start.
        sleep(Duration::from_millis(300));
        daemon
    }

    fn record(&mut self) -> Value {
        self.until("the outcome is known", |daemon| {
            let history = daemon.get("history")?;
            let record = history.as_array()?.last()?;
            record["outcome"]["lastProcessGoneSeconds"].as_f64()?;
            Some(record.clone())
        })
    }

    fn until<T>(&mut self, what: &str, found: impl Fn(&Self) -> Option<T>) -> T {
        let begun = Instant::now();
        loop {
            if let Some(found) = found(self) {
                return found;
            }
            let ended = self.process.try_wait().expect("the daemon is there");
            assert!(ended.is_none(), "the daemon ended: {ended:?}");
            assert!(begun.elapsed() < PATIENCE, "waited in vain until {what}");
            sleep(Duration::from_millis(20));
        }
    }

    fn get(&self, command: &str) -> Option<Value> {
        let output = Command::new(program())
            .arg(command)
            .args(["-o", "json", "--socket"])
            .arg(&self.socket)
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
