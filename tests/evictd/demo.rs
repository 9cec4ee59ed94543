//! Every play of `evictd demo` through the built program, against real cgroups; and that nothing is left of it, however
//! it ends.

use evictd_testkit::testing::left_out;
use nix::{
    poll::{PollTimeout, poll},
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};
use tempfile::TempDir;

/// One play at a time: each fills half a GiB, and some are timed.
static STAGE: Mutex<()> = Mutex::new(());

/// A demo that was started.
struct Demo {
    guardian: Child,
    /// The process that it guards, after which everything is named.
    guarded: i32,
    temporary: TempDir,
    /// Held until nothing is left of it.
    #[allow(dead_code, reason = "a lock is held, not read")]
    alone: MutexGuard<'static, ()>,
}

impl Demo {
    fn start(scenario: &str) -> Self {
        let alone = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
        let temporary = tempfile::tempdir().unwrap();
        let guardian = Command::new(env!("CARGO_BIN_EXE_evictd"))
            .args(["demo", "--scenario", scenario, "-o", "json"])
            .env("TMPDIR", temporary.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let id = guardian.id();
        let children = format!("/proc/{id}/task/{id}/children");
        let mut guarded = None;
        eventually("the guardian has started the demo", || {
            let text = fs::read_to_string(&children).unwrap_or_default();
            guarded = text
                .split_whitespace()
                .next()
                .and_then(|it| it.parse().ok());
            guarded.is_some()
        });
        Self {
            guardian,
            guarded: guarded.unwrap(),
            temporary,
            alone,
        }
    }

    /// Whether its hog is in its cgroup, where it waits to be let go; false if it ended before.
    fn is_on_stage(&mut self) -> bool {
        let mut over = false;
        eventually("the hog is in its cgroup", || {
            over = self.guardian.try_wait().unwrap().is_some();
            over || self.cgroups().iter().any(|group| {
                let processes = fs::read_to_string(group.join("hog/cgroup.procs"));
                processes.is_ok_and(|processes| !processes.is_empty())
            })
        });
        !over
    }

    fn cgroups(&self) -> Vec<PathBuf> {
        let name = format!("evictd-demo-{}", self.guarded);
        let mounts = fs::read_dir("/sys/fs/cgroup").into_iter().flatten();
        let mounts = mounts.filter_map(|entry| Some(entry.ok()?.path().join(&name)));
        let own = Path::new("/sys/fs/cgroup").join(&name);
        mounts.chain([own]).filter(|path| path.exists()).collect()
    }

    fn is_cleared_away(&self) -> bool {
        let mut files = fs::read_dir(self.temporary.path()).unwrap();
        self.cgroups().is_empty() && files.next().is_none()
    }

    fn signal_guardian(&self, signal: Signal) {
        kill(Pid::from_raw(self.guardian.id().cast_signed()), signal).unwrap();
    }

    /// What it said in the end, once nothing is left of it.
    fn end(self) -> Output {
        let Self {
            guardian,
            guarded,
            temporary,
            alone,
        } = self;
        let output = guardian.wait_with_output().unwrap();
        let rest = Self {
            guardian: Command::new("true").spawn().unwrap(),
            guarded,
            temporary,
            alone,
        };
        let left = rest.cgroups();
        assert!(rest.is_cleared_away(), "left: {left:?}");
        output
    }
}

/// Looks every few milliseconds until the condition holds; panics after twenty seconds.
fn eventually(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..4000 {
        if condition() {
            return;
        }
        let _ = poll(&mut [], PollTimeout::from(5_u16));
    }
    panic!("still not after 20 s: {what}");
}

/// The report of a play that went as expected; `None` where there can be no real one.
fn play(test: &str, scenario: &str) -> Option<Value> {
    let output = Demo::start(scenario).end();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{errors}"));
    if report["mode"] == "simulated" {
        left_out(test, errors.trim());
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{errors}{report:#}");
    assert_eq!(report["scenario"], scenario);
    assert_eq!(report["mode"], "real");
    assert_eq!(report["evicted"], json!([report["expected"]]), "{report:#}");
    assert_eq!(report["kernelOomKills"], 0);
    assert_eq!(report["survivors"].as_array().unwrap().len(), 3);
    assert!(report["reactionSeconds"].as_f64().unwrap() > 0.0);
    assert!(report["lowestAvailableBytes"].as_i64().unwrap() > 0);
    assert_eq!(errors, "");
    Some(report)
}

#[test]
fn the_demo_evicts_the_memory_hog() {
    let Some(report) = play("the_demo_evicts_the_memory_hog", "memory") else {
        return;
    };
    assert_eq!(report["expected"], "demo/hog");
    let decision = &report["decisions"][0];
    assert_eq!(decision["signal"], "memory.available");
    assert_eq!(decision["ranking"][0]["pod"], "demo/hog");
    assert_eq!(
        decision["outcome"]["killedSeconds"],
        decision["outcome"]["firstSignalSeconds"]
    );
}

#[test]
fn the_demo_evicts_the_thread_hog() {
    if let Some(report) = play("the_demo_evicts_the_thread_hog", "pids") {
        assert_eq!(report["decisions"][0]["signal"], "pid.available");
    }
}

#[test]
fn the_demo_evicts_the_disk_hog_and_removes_its_files() {
    if let Some(report) = play("the_demo_evicts_the_disk_hog_and_removes_its_files", "disk") {
        assert_eq!(
            report["decisions"].as_array().unwrap().len(),
            1,
            "{report:#}"
        );
    }
}

#[test]
fn a_soft_victim_is_asked_first() {
    let Some(report) = play("a_soft_victim_is_asked_first", "soft") else {
        return;
    };
    let decision = &report["decisions"][0];
    assert_eq!(decision["kind"], "soft");
    assert_eq!(decision["gracePeriodSeconds"], 3);
    assert_eq!(decision["outcome"]["method"], "terminated");
    assert_eq!(decision["outcome"]["killedSeconds"], Value::Null);
    assert!(
        report["reactionSeconds"].as_f64().unwrap() >= 2.0,
        "its grace is 2 s"
    );
}

#[test]
fn a_critical_hog_is_spared() {
    let Some(report) = play("a_critical_hog_is_spared", "critical") else {
        return;
    };
    assert_eq!(report["evicted"], json!(["demo/burstable"]));
    let survivors = report["survivors"].as_array().unwrap();
    assert!(survivors.contains(&json!("demo/hog")));
    let ranking = report["decisions"][0]["ranking"].as_array().unwrap();
    let hog = ranking.iter().find(|pod| pod["pod"] == "demo/hog").unwrap();
    assert_eq!(hog["critical"], true);
    assert_eq!(hog["exceedsRequest"], true);
}

#[test]
fn an_interrupted_demo_clears_up() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut demo = Demo::start("soft");
        if !demo.is_on_stage() {
            return left_out(
                "an_interrupted_demo_clears_up",
                "there are no cgroups for it",
            );
        }
        demo.signal_guardian(signal);
        let output = demo.end();
        assert_eq!(output.status.code(), Some(1));
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            errors,
            "evictd: interrupted; everything that it created is removed\n"
        );
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn a_killed_demo_is_cleared_away() {
    let mut demo = Demo::start("soft");
    if !demo.is_on_stage() {
        return left_out(
            "a_killed_demo_is_cleared_away",
            "there are no cgroups for it",
        );
    }
    // A child of our child, which has not waited for it.
    kill(Pid::from_raw(demo.guarded), Signal::SIGKILL).unwrap();
    let output = demo.end();
    assert_eq!(output.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(errors.contains("was ended by SIGKILL"), "{errors}");
}

#[test]
fn a_demo_does_not_outlive_its_guardian() {
    let mut demo = Demo::start("soft");
    if !demo.is_on_stage() {
        return left_out(
            "a_demo_does_not_outlive_its_guardian",
            "there are no cgroups for it",
        );
    }
    demo.signal_guardian(Signal::SIGKILL);
    demo.guardian.wait().unwrap();
    eventually("the demo is gone", || {
        !Path::new(&format!("/proc/{}", demo.guarded)).exists() || is_zombie(demo.guarded)
    });
    assert!(demo.is_cleared_away(), "{:?}", demo.cgroups());
}

/// Ended, and only not waited for by whoever inherited it.
fn is_zombie(id: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[test]
fn without_root_it_says_so_and_simulates() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_evictd"));
    command.args(["demo", "-o", "json"]);
    let mut user = nix::unistd::geteuid().as_raw();
    if user == 0 {
        user = 65534;
        command.uid(user).gid(user);
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            let why = format!("user {user} may not run the program: {error}");
            return left_out("without_root_it_says_so_and_simulates", why);
        }
    };
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["mode"], "simulated");
    assert_eq!(report["evicted"], json!(["demo/hog"]));
    let missing = format!("making cgroups needs root (user id 0); this is user id {user}");
    assert!(errors.contains(&missing), "{errors}");
}
