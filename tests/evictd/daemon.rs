//! `evictd run` under test: its configuration, its sockets, its log.

use crate::node::{EVICTD, Node};
use evictd_testkit::program;
use nix::poll::{PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::str::FromStr;
use std::time::Duration;

/// A daemon that takes longer for an answer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running daemon; dropping it kills it.
pub(crate) struct Daemon {
    child: Child,
    pub(crate) socket: PathBuf,
    log: PathBuf,
}

/// The whole configuration of a daemon on this node: these hard thresholds and no others, and further lines.
pub(crate) fn configuration(node: &Node, hard: &[(&str, &str)], lines: &str) -> String {
    let defaults = [
        "imagefs.available",
        "imagefs.inodesFree",
        "memory.available",
        "nodefs.available",
        "nodefs.inodesFree",
        "pid.available",
    ];
    let off = defaults
        .iter()
        .filter(|signal| hard.iter().all(|(set, _)| set != *signal))
        .map(|signal| format!("{signal}: null"));
    let set = hard
        .iter()
        .map(|(signal, value)| format!("{signal}: '{value}'"));
    let hard: Vec<String> = set.chain(off).collect();
    let mut text = format!(
        "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\nevictionHard: {{{}}}\n{lines}\n",
        hard.join(", ")
    );
    let (place, cgroup) = (
        node.directory.path().display(),
        node.group.relative.display(),
    );
    let rest = [
        ("nodeName", "test".to_owned()),
        ("nodeCgroup", cgroup.to_string()),
        ("cgroupRoots", format!("[{cgroup}]")),
        (
            "pods",
            format!(
                "{{source: manifests, manifests: {place}/manifests, staticPodPath: {place}/static}}"
            ),
        ),
        (
            "filesystems",
            format!("{{nodefs: {place}, imagefs: {place}, containerfs: {place}}}"),
        ),
        ("metrics", "{address: '127.0.0.1:0'}".to_owned()),
        ("socket", format!("{place}/evictd.sock")),
        ("stateDirectory", format!("{place}/state")),
        ("runtimeDirectory", format!("{place}/run")),
    ];
    for (key, value) in rest {
        if !lines
            .lines()
            .any(|line| line.starts_with(&format!("{key}:")))
        {
            text.extend([key, ": ", &value, "\n"]);
        }
    }
    text
}

impl Daemon {
    /// Starts it and waits until it is ready.
    pub(crate) fn start(node: &Node, hard: &[(&str, &str)], lines: &str) -> Self {
        Self::start_by(node, Command::new(EVICTD), hard, lines)
    }

    /// The same through another program, whose arguments so far are those before `run`.
    pub(crate) fn start_by(
        node: &Node,
        command: Command,
        hard: &[(&str, &str)],
        lines: &str,
    ) -> Self {
        let daemon = Self::spawn(node, command, hard, lines);
        daemon.eventually("the daemon answers", |daemon| {
            daemon.get("/v1/status").is_some()
        });
        daemon.eventually("the daemon has looked", |daemon| {
            daemon.status()["signals"] != Value::Array(Vec::new())
        });
        daemon
    }

    /// Only starts it.
    pub(crate) fn spawn(
        node: &Node,
        mut command: Command,
        hard: &[(&str, &str)],
        lines: &str,
    ) -> Self {
        write_configuration(node, hard, lines);
        let log = node.path("log");
        let child = command
            .args(["run", "--config"])
            .arg(node.path("evictd.yaml"))
            .stderr(File::create(&log).unwrap())
            .spawn()
            .unwrap();
        Self {
            child,
            socket: node.path("evictd.sock"),
            log,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().cast_signed()), signal).unwrap();
    }

    /// Gives it another configuration, and waits until it is in force.
    pub(crate) fn reload(&self, node: &Node, hard: &[(&str, &str)], lines: &str) {
        let words = "the configuration was reloaded and is in force";
        let before = self.said(words);
        write_configuration(node, hard, lines);
        self.signal(Signal::SIGHUP);
        self.eventually(words, |daemon| daemon.said(words) > before);
    }

    /// Waits until it has ended.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        let ended = wait(|| {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        assert!(
            ended,
            "the daemon does not end; it said:\n{}",
            self.log_text()
        );
        status.unwrap()
    }

    /// Looks until it holds, for half a minute at most.
    pub(crate) fn eventually(&self, what: &str, mut holds: impl FnMut(&Self) -> bool) {
        assert!(
            wait(|| holds(self)),
            "still not after 30 s: {what}\n--- its status:\n{}",
            self.get("/v1/status").unwrap_or_default()
        );
    }

    /// What the socket answers, if it does.
    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        let stream = UnixStream::connect(&self.socket).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        serde_json::from_str(&exchange(stream, path).ok()?.1).ok()
    }

    pub(crate) fn status(&self) -> Value {
        self.get("/v1/status").expect("a daemon that answers")
    }

    /// Code and text of a page of the metrics server.
    pub(crate) fn page(&self, path: &str) -> (String, String) {
        // The log is written by another thread, after the first answers at times.
        let mut address = None;
        self.eventually("it says where the metrics are", |daemon| {
            let log = daemon.log();
            let mut addresses = log
                .iter()
                .filter_map(|line| Some(message(line).split_once("http://")?.1.to_owned()));
            address = addresses.next();
            address.is_some()
        });
        let address = address.unwrap();
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        exchange(stream, path).unwrap()
    }

    /// The value of this line of the metrics, labels included.
    pub(crate) fn metric<T: FromStr>(&self, line: &str) -> T {
        let text = self.page("/metrics").1;
        let found = text
            .lines()
            .find_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        found.unwrap_or_else(|| panic!("no {line} in\n{text}"))
    }

    pub(crate) fn count(&self, line: &str) -> u64 {
        self.metric(line)
    }

    /// What an operator's command prints as JSON.
    pub(crate) fn command(&self, arguments: &[&str]) -> Value {
        let mut command = crate::evictd(arguments);
        command.args(["-o", "json", "--socket"]).arg(&self.socket);
        program::answer(&program::run(&mut command, ""))
    }

    /// Decisions so far, oldest first, each with the last word on it.
    pub(crate) fn history(&self) -> Vec<Value> {
        serde_json::from_value(self.command(&["history"])).unwrap()
    }

    /// The decisions that evict a pod. On a slow machine there may be others: one waits for the memory of a pod that is
    /// ending.
    pub(crate) fn evictions(&self) -> Vec<Value> {
        let mut all = self.history();
        all.retain(|decision| !decision["uid"].is_null());
        all
    }

    /// Waits until so many pods are gone, and returns those decisions.
    pub(crate) fn evicted(&self, count: usize) -> Vec<Value> {
        let line = |line: &Value| message(line).contains(" is gone: ");
        self.eventually(&format!("{count} pods are gone"), |daemon| {
            daemon.log().iter().filter(|one| line(one)).count() >= count
        });
        let mut found = Vec::new();
        self.eventually("the history tells how they went", |daemon| {
            found = daemon.history();
            found.retain(|decision| !decision["outcome"].is_null());
            found.len() >= count
        });
        found
    }

    pub(crate) fn log_text(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Its log, a JSON document a line.
    pub(crate) fn log(&self) -> Vec<Value> {
        let text = self.log_text();
        // The last line may be half written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("no JSON: {line}")))
            .collect()
    }

    /// How many lines of the log hold this.
    pub(crate) fn said(&self, words: &str) -> usize {
        self.log()
            .iter()
            .filter(|line| message(line).contains(words))
            .count()
    }

    pub(crate) fn condition(&self, name: &str) -> Value {
        let status = self.status();
        let all = status["conditions"].as_array().unwrap();
        all.iter()
            .find(|one| one["condition"] == name)
            .unwrap()
            .clone()
    }

    /// Waits until the loop has turned some times since now, so that what it would do at once it has done. What it would
    /// do after minutes, too, the agent's own tests see in paused time.
    pub(crate) fn some_turns_pass(&self) {
        let turns = || self.count("evictd_cycle_duration_seconds_count");
        let then = turns() + 10;
        self.eventually("the loop has turned ten times", |daemon| {
            // A question has it turn at once.
            daemon.get("/v1/ranking?signal=memory.available");
            turns() >= then
        });
    }

    /// Waits for so many seconds at least, where somebody else than the loop takes them: a kubelet, the kernel, a back-off
    /// of the delivery.
    pub(crate) fn seconds_pass(&self, seconds: i64) {
        let uptime = || self.status()["uptimeSeconds"].as_i64().unwrap();
        let then = uptime() + seconds + 1;
        self.eventually("time passes", |_| uptime() >= then);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let _ = writeln!(io::stderr(), "--- the daemon said:\n{}", self.log_text());
        }
    }
}

pub(crate) fn write_configuration(node: &Node, hard: &[(&str, &str)], lines: &str) {
    fs::write(node.path("evictd.yaml"), configuration(node, hard, lines)).unwrap();
}

/// The sentence of a line of the log.
pub(crate) fn message(line: &Value) -> &str {
    line["message"].as_str().unwrap_or_default()
}

/// Names of the pods of these decisions.
pub(crate) fn names(decisions: &[Value]) -> Vec<&str> {
    let pods = decisions.iter().map(|decision| &decision["pod"]);
    pods.map(|pod| pod.as_str().unwrap_or("nobody")).collect()
}

/// Seconds between two moments in JSON.
pub(crate) fn seconds_between(from: &Value, to: &Value) -> f64 {
    let moment = |value: &Value| value.as_str().unwrap().parse::<jiff::Timestamp>().unwrap();
    moment(to).duration_since(moment(from)).as_secs_f64()
}

pub(crate) fn wait(mut holds: impl FnMut() -> bool) -> bool {
    (0..1500).any(|_| {
        let holds = holds();
        if !holds {
            let _ = poll(&mut [], PollTimeout::from(20_u16));
        }
        holds
    })
}

/// Asks in HTTP/1.0, whose answers end where the stream does.
pub(crate) fn exchange(mut stream: impl Read + Write, path: &str) -> io::Result<(String, String)> {
    write!(stream, "GET {path} HTTP/1.0\r\nHost: evictd\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    let code = head.split(' ').nth(1).unwrap_or_default();
    Ok((code.to_owned(), body.to_owned()))
}
