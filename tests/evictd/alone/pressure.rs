//! Thresholds on pressure: a pod that waits at its own limit costs no other pod, and goes alone where that is wanted.

use crate::cgroup_support::left_out;
use crate::daemon::{Daemon, names};
use crate::node::{EVICTD, NODE_MIB, Node, Traits, requests};
use nix::poll::{PollTimeout, poll};
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Reads a file again and again that does not fit into the memory it may take.
const THRASH: &str = "dd if=/dev/zero of=FILE bs=1M count=64 2>/dev/null; echo ready
    for reader in 1 2 3; do while :; do cat FILE > /dev/null; done & done; wait";

/// Starts a pod that thrashes; `None` where this kernel tells nothing of it.
fn thrashing_pod(node: &mut Node, test: &str) -> Option<u32> {
    let Some(pressure) = node
        .unified("memory.pressure")
        .filter(|file| file.is_file())
    else {
        left_out(test, "this kernel tells no pressure of a cgroup");
        return None;
    };
    node.limit_memory_of("thrasher", 16 << 20);
    let file = node.path("large");
    let script = THRASH.replace("FILE", &file.display().to_string());
    let pid = node.group.script("thrasher", &script);
    node.admit("thrasher", Traits::default());
    if !stalls(&pressure) {
        left_out(
            test,
            "reading a file too large for its cgroup stalls nobody here",
        );
        return None;
    }
    Some(pid)
}

/// Whether somebody stands still for memory within ten seconds.
fn stalls(pressure: &PathBuf) -> bool {
    (0..500).any(|_| {
        let _ = poll(&mut [], PollTimeout::from(20_u16));
        let text = fs::read_to_string(pressure).unwrap();
        !text.contains("some avg10=0.")
    })
}

#[test]
fn a_pod_that_thrashes_inside_its_own_limit_is_named_and_goes_alone_only_where_that_is_wanted() {
    let test = "a_pod_that_thrashes_inside_its_own_limit_is_named";
    let Some(mut node) = Node::new(test) else {
        return;
    };
    let mut modest = node.pod("modest", "--hold 24Mi", Traits::default());
    let Some(thrasher) = thrashing_pod(&mut node, test) else {
        return;
    };
    let hard = [
        ("memory.psi", "some avg10 > 0.5% for 1s"),
        ("memory.available", "32Mi"),
    ];
    let daemon = Daemon::start(&node, &hard, "");
    let warned = |daemon: &Daemon| {
        let status = daemon.status();
        status["warnings"].as_array().is_some_and(|all| {
            let words = "no pod is evicted: only shop/thrasher waits, at a limit of its own";
            all.iter().any(|one| one.as_str().unwrap().contains(words))
        })
    };
    daemon.eventually("the status names the thrasher", warned);
    daemon.some_turns_pass();
    assert!(modest.lives() && runs(thrasher));
    assert!(
        daemon
            .history()
            .iter()
            .all(|decision| decision["pod"].is_null())
    );
    assert_eq!(daemon.condition("MemoryPressure")["raised"], false);
    assert_eq!(
        daemon.said("only shop/thrasher waits"),
        1,
        "it is said once"
    );

    daemon.reload(&node, &hard, "evictAtOwnLimit: true");
    let decisions = daemon.evicted(1);
    assert_eq!(names(&decisions), ["shop/thrasher"]);
    the_record_says_it(&decisions[0]);
    let labels = "{signal=\"memory.psi\",kind=\"hard\"}";
    assert_eq!(daemon.count(&format!("evictd_evictions_total{labels}")), 1);
    the_status_shows_both_signals(&daemon);
    // The average still contains the thrasher.
    daemon.seconds_pass(2);
    assert!(modest.lives());
    assert_eq!(daemon.condition("MemoryPressure")["raised"], false);
}

fn runs(pid: u32) -> bool {
    fs::exists(format!("/proc/{pid}")).unwrap()
}

fn the_record_says_it(decision: &Value) {
    assert!(decision["wokenBy"].is_string(), "{decision:#}");
    let outcome = &decision["outcome"];
    let seconds = |key: &str| outcome[key].as_f64().unwrap();
    assert!(seconds("crossedToDecidedSeconds") >= 1.0, "{outcome:#}");
    assert!(seconds("firstSignalSeconds") <= seconds("lastProcessGoneSeconds"));
    let all = seconds("crossedToDecidedSeconds") + seconds("lastProcessGoneSeconds");
    assert!(
        (all - seconds("reactionSeconds")).abs() < 0.001,
        "{outcome:#}"
    );
    assert_eq!(decision["signal"], "memory.psi");
    assert_eq!(decision["threshold"]["value"], "some avg10 > 0.5% for 1s");
    let words = decision["message"].as_str().unwrap();
    let head = "The node was under pressure on resource: memory. Threshold: memory.psi some avg10 > 0.5% for 1s, observed: ";
    assert!(words.starts_with(head), "{words}");
    let why = decision["why"].as_str().unwrap();
    assert!(
        why.starts_with("shop/thrasher waited at a limit of its own on memory for "),
        "{why}"
    );
}

fn the_status_shows_both_signals(daemon: &Daemon) {
    let status = daemon.status();
    let signals = status["signals"].as_array().unwrap();
    let of = |name: &str| signals.iter().find(|one| one["signal"] == name).unwrap();
    assert!(
        of("memory.available")["available"].as_i64() > Some(i64::try_from(NODE_MIB).unwrap() << 18)
    );
    assert_eq!(
        of("memory.psi")["thresholds"][0]["configured"],
        "some avg10 > 0.5% for 1s"
    );
    assert!(!status["observed"]["cpuPressure"].is_null(), "{status:#}");
}

#[test]
fn pressure_calls_for_a_look_before_its_time() {
    let test = "pressure_calls_for_a_look_before_its_time";
    let Some(mut node) = Node::new(test) else {
        return;
    };
    let Some(_) = thrashing_pod(&mut node, test) else {
        return;
    };
    let daemon = Daemon::start(&node, &[("memory.available", "1Mi")], "");
    if daemon.said("not woken by pressure") > 0 {
        left_out(test, "this kernel takes no trigger on pressure");
        return;
    }
    assert_eq!(daemon.said("woken by pressure within "), 1);
    daemon.eventually("the kernel calls", |daemon| {
        daemon.status()["lastCall"]["by"] == "memoryPressure"
    });
    let page = Command::new(EVICTD)
        .args(["status", "-o", "table", "--socket"])
        .arg(&daemon.socket)
        .output()
        .unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains(": memoryPressure"), "{page}");
}

#[test]
fn where_there_is_no_swap_its_threshold_is_never_crossed_and_memory_counts_alone() {
    let Some(node) = Node::new("where_there_is_no_swap_its_threshold_is_never_crossed") else {
        return;
    };
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap();
    let swap = meminfo.lines().find(|line| line.starts_with("SwapTotal:"));
    if swap.is_none_or(|line| !line.ends_with(" 0 kB")) {
        left_out(
            "where_there_is_no_swap_its_threshold_is_never_crossed",
            "this machine has swap",
        );
        return;
    }
    let mut modest = node.pod("modest", "--hold 16Mi", requests("64Mi"));
    let mut hog = node.pod(
        "hog",
        "--hold 16Mi --grow-to 150Mi --per-second 100Mi",
        Traits::default(),
    );
    let hard = [("memory.available", "64Mi"), ("swap.available", "99%")];
    let daemon = Daemon::start(&node, &hard, "memoryAndSwap: both");
    daemon.some_turns_pass();
    assert_eq!(daemon.history(), Vec::<serde_json::Value>::new());
    let signals = daemon.status()["signals"].clone();
    let mut rows = signals.as_array().unwrap().iter();
    let swap = rows.find(|one| one["signal"] == json!("swap.available"));
    let swap = swap.expect("what is configured has a row");
    assert!(swap["available"].is_null(), "{swap:#}");
    let why = swap["absent"].as_str().unwrap_or_default();
    assert!(why.contains("no swap"), "{swap:#}");
    hog.grow();
    assert_eq!(names(&daemon.evicted(1)), ["shop/hog"]);
    assert!(modest.lives());
}
