//! A daemon that cannot start says why, and by its exit code what kind of reason that is.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, message};
use crate::node::{EVICTD, Node, Traits};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

const CALM: [(&str, &str); 1] = [("memory.available", "16Mi")];
const NOBODY: u32 = 65534;

/// Exit code, and what it said.
fn refused(node: &Node, command: Command, lines: &str) -> (i32, String) {
    let mut daemon = Daemon::spawn(node, command, &CALM, lines);
    let code = daemon.ended().code().unwrap();
    (code, daemon.log_text())
}

fn plain() -> Command {
    Command::new(EVICTD)
}

#[test]
fn a_wrong_configuration_is_bad_input_with_every_mistake() {
    let Some(node) = Node::new("a_wrong_configuration_is_bad_input") else {
        return;
    };
    let (code, said) = refused(
        &node,
        plain(),
        "housekeepingIntervall: 1s\nfutileEvictions: many",
    );
    assert_eq!(code, 2, "{said}");
    for words in ["evictd.yaml:4", "housekeepingInterval", "futileEvictions"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let (code, said) = refused(&node, plain(), "containerRuntimeEndpoint: cri.sock");
    assert_eq!(code, 2, "{said}");
    assert!(
        said.contains("containerRuntimeEndpoint: \"cri.sock\" is not the absolute path"),
        "{said}"
    );
    let (code, said) = refused(&node, plain(), "evict: {method: eviction}");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("need an API server"), "{said}");

    let output = plain()
        .args(["run", "--config", "/nonexistent/evictd.yaml"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nonexistent/evictd.yaml"));
}

#[test]
fn addresses_that_are_taken_are_refused_and_left_alone() {
    let Some(node) = Node::new("addresses_that_are_taken_are_refused") else {
        return;
    };
    let first = Daemon::start(&node, &CALM, "");
    let pid = first.pid();
    let place = node.directory.path().display();
    for (lines, words) in [
        (
            format!("stateDirectory: {place}/other"),
            format!("evictd.sock is taken by a running daemon (pid {pid})"),
        ),
        (
            format!("socket: {place}/other.sock"),
            format!("the history {place}/state is in use by another process"),
        ),
    ] {
        let (code, said) = refused(&node, plain(), &lines);
        assert_eq!(code, 1, "{said}");
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(first.get("/v1/status").is_some());

    fs::write(node.path("file"), "mine").unwrap();
    let lines = format!("socket: {place}/file\nstateDirectory: {place}/other");
    let (code, said) = refused(&node, plain(), &lines);
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("exists and is not a socket"), "{said}");
    assert_eq!(fs::read_to_string(node.path("file")).unwrap(), "mine");
}

#[test]
fn without_cgroups_or_permission_the_start_names_what_is_missing() {
    let Some(node) = Node::new("without_cgroups_or_permission_the_start_names_what_is_missing")
    else {
        return;
    };
    let place = node.directory.path().display();
    fs::create_dir(node.path("empty")).unwrap();
    let (code, said) = refused(&node, plain(), &format!("roots: {{cgroup: {place}/empty}}"));
    assert_eq!(code, 1, "{said}");
    assert!(
        said.contains("neither a cgroup v2 tree nor any cgroup v1 controller"),
        "{said}"
    );

    fs::set_permissions(node.directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
    // A copy, since the build directory may be closed to others.
    let copy = node.path("evictd");
    fs::copy(EVICTD, &copy).unwrap();
    for (lines, missing) in [("", "CAP_KILL"), ("dryRun: true", "state")] {
        let mut command = Command::new(&copy);
        command.uid(NOBODY).gid(NOBODY);
        let (code, said) = refused(&node, command, lines);
        assert_eq!(code, 3, "{said}");
        assert!(
            said.contains(missing) && said.contains("runs as root"),
            "{said}"
        );
    }
}

#[test]
fn pods_in_a_pid_namespace_out_of_sight_are_not_touched_and_it_ends_with_the_reason() {
    let name = "pods_in_a_pid_namespace_out_of_sight";
    let Some(node) = Node::new(name) else { return };
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]);
        command
    };
    if !unshare()
        .arg("true")
        .status()
        .is_ok_and(|status| status.success())
    {
        left_out(name, "no pid namespace can be made here");
        return;
    }
    let mut hog = node.pod("hog", "--hold 90Mi", Traits::default());
    let mut command = unshare();
    command.arg(EVICTD);
    let mut daemon = Daemon::spawn(&node, command, &[("memory.available", "110Mi")], "");
    let code = daemon.ended().code();
    let said = daemon.log_text();
    assert_eq!(code, Some(3), "{said}");
    assert!(
        said.contains("pid namespace that evictd cannot see"),
        "{said}"
    );
    assert!(hog.lives());
}

#[test]
fn rubbish_in_proc_costs_the_signals_and_not_the_daemon() {
    let Some(node) = Node::new("rubbish_in_proc_costs_the_signals") else {
        return;
    };
    let proc = node.path("proc");
    fs::create_dir_all(proc.join("self")).unwrap();
    fs::create_dir_all(proc.join("sys/kernel")).unwrap();
    fs::copy("/proc/self/cgroup", proc.join("self/cgroup")).unwrap();
    for file in [
        "meminfo",
        "loadavg",
        "sys/kernel/pid_max",
        "sys/kernel/threads-max",
    ] {
        fs::write(proc.join(file), "rubbish \u{1F600}\n").unwrap();
    }
    let lines = format!("roots: {{proc: {}}}", proc.display());
    let mut daemon = Daemon::spawn(&node, plain(), &CALM, &lines);
    let unobserved = |daemon: &Daemon, signal: &str| {
        let says =
            |line: &Value| line["signal"] == signal && message(line).contains("cannot be sampled");
        daemon.log().iter().filter(|line| says(line)).count() == 1
    };
    daemon.eventually("it says what it cannot read", |daemon| {
        unobserved(daemon, "memory.available") && unobserved(daemon, "pid.available")
    });
    let memory = |daemon: &Daemon| -> Option<Value> {
        let signals = daemon.status()["signals"].clone();
        let signals: Vec<Value> = serde_json::from_value(signals).ok()?;
        signals
            .into_iter()
            .find(|signal| signal["signal"] == "memory.available")
    };
    daemon.some_turns_pass();
    let blind = memory(&daemon).unwrap();
    assert!(blind["available"].is_null() && blind["problem"].is_string());
    assert_eq!(blind["thresholds"][0]["kind"], "hard", "{blind:#}");
    assert!(daemon.count("evictd_signal_read_errors_total{signal=\"memory.available\"}") > 1);
    fs::copy("/proc/meminfo", proc.join("meminfo")).unwrap();
    daemon.eventually("memory is observed", |daemon| {
        memory(daemon).is_some_and(|memory| memory["available"].is_i64())
    });
    fs::remove_file(proc.join("meminfo")).unwrap();
    daemon.eventually("memory is unobserved again", |daemon| {
        memory(daemon)
            .is_some_and(|memory| memory["available"].is_null() && memory["problem"].is_string())
    });
    daemon.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(daemon.ended().code(), Some(0));
}
