//! The built daemon on a node of the bench.

use crate::{Evicted, pod::program};
use evictd_demo::Node;
use jiff::Timestamp;
use serde_json::Value;
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

const SIGNALS: [&str; 6] = [
    "memory.available",
    "nodefs.available",
    "nodefs.inodesFree",
    "imagefs.available",
    "imagefs.inodesFree",
    "pid.available",
];
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) struct Daemon {
    process: Child,
    socket: PathBuf,
}

impl Daemon {
    /// Returns once it watches the node with this hard threshold and these further lines of configuration.
    pub(crate) fn start(node: &Node, hard: &str, lines: &str) -> Self {
        let off = SIGNALS.iter().filter(|signal| !hard.contains(*signal));
        let off: Vec<String> = off.map(|signal| format!("{signal}: null")).collect();
        let off = off.join(", ");
        let (place, cgroup) = (node.directory.display(), node.cgroup.display());
        let config = format!(
            "apiVersion: evictd.dev/v1alpha1
kind: EvictionConfiguration
nodeName: bench
nodeCgroup: {cgroup}
cgroupRoots: [{cgroup}]
evictionHard: {{{hard}, {off}}}
pods: {{source: manifests, manifests: {place}/manifests, staticPodPath: ''}}
metrics: {{address: ''}}
socket: {place}/evictd.sock
stateDirectory: {place}/state
runtimeDirectory: {place}/run
{lines}"
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

    /// How long the eviction took whose last process has ended just now.
    pub(crate) fn evicted(mut self, crossed: Instant) -> Evicted {
        let (all, dead) = (crossed.elapsed(), Timestamp::now());
        let record = self.record();
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
