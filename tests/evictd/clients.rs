//! `evictd status`, `rank`, `history` and `top` as an operator runs them, against a real socket.

use evictd_kernel::clock::Clock;
use evictd_node::{
    History, Waiting, socket,
    status::{
        ConditionStatus, Question, Shared, SignalStatus, Status, ThresholdStatus, Unanswered,
    },
};
use evictd_signals::Signal;
use evictd_testkit::{
    program::{self, refusal},
    testing::left_out,
};
use serde_json::{Value, json};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::mpsc::channel;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// The sockets of a daemon whose node is short of memory.
struct Daemon {
    directory: TempDir,
    socket: PathBuf,
}

impl Daemon {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("evictd.sock");
        let history = directory.path().join("history");
        let decision = json!({
            "id": "d-1", "time": "2026-11-21T13:15:00Z", "signal": "memory.available", "kind": "hard",
            "pod": "shop/hog", "uid": "u-1", "gracePeriodSeconds": 0, "reason": "Evicted",
            "message": "The node was low on resource: memory. ", "why": "it uses the most",
            "threshold": {
                "signal": "memory.available", "value": "100Mi", "gracePeriodSeconds": 0, "quantity": "100Mi",
                "observed": { "available": 83_886_080, "capacity": 536_870_912 },
                "firstObservedAt": "2026-11-21T13:14:59Z",
            },
            "runnerUp": "shop/cart", "outcome": { "lastProcessGoneSeconds": 0.12 },
            "ranking": [{ "pod": "shop/hog", "priority": 0, "exceedsRequest": true, "usage": "300Mi" },
                { "pod": "shop/cart", "priority": 0, "exceedsRequest": true, "unreachable": "budget" }],
        });
        let mut records = History::open(&history, 1 << 20).unwrap();
        records.append(&decision).unwrap();
        for (id, key, value) in [
            ("d-2", "dryRun", json!(true)),
            (
                "d-3",
                "outcome",
                json!({ "error": "no permission to kill" }),
            ),
        ] {
            let mut other = decision.clone();
            other["id"] = json!(id);
            other["outcome"] = Value::Null;
            other[key] = value;
            records.append(&other).unwrap();
        }
        drop(records);
        let (opened, is_open) = channel();
        let path = socket.clone();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let (shared, mut questions) = Shared::new(
                    Clock::start(),
                    status(decision),
                    history,
                    Waiting::default(),
                );
                let socket = socket::bind(&path).await.unwrap();
                opened.send(()).unwrap();
                tokio::spawn(socket.serve(shared));
                let mut asked = 0;
                while let Some(question) = questions.recv().await {
                    if let Question::Ranking { signal, answer } = question {
                        asked += u32::from(signal == Some(Signal::ImagefsAvailable));
                        let _ = answer.send(match (signal, asked) {
                            (Some(Signal::ImagefsAvailable), 1) => {
                                Err(Unanswered::NotYet("the first walk is under way"))
                            }
                            _ => ranking(signal),
                        });
                    }
                }
            });
        });
        is_open.recv().unwrap();
        Self { directory, socket }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        run(&self.socket, arguments)
    }
}

fn status(decision: Value) -> Status {
    let mut memory = SignalStatus::new(Signal::MemoryAvailable);
    memory.available = Some(80 << 20);
    memory.capacity = Some(512 << 20);
    memory.headroom = Some(-(20 << 20));
    memory.thresholds.push(ThresholdStatus {
        kind: "hard".to_owned(),
        value: 100 << 20,
        configured: "100Mi".to_owned(),
        met: true,
        ..ThresholdStatus::default()
    });
    Status {
        node: "node-1".to_owned(),
        signals: vec![memory, SignalStatus::new(Signal::PidAvailable)],
        conditions: vec![ConditionStatus {
            condition: "MemoryPressure".to_owned(),
            raised: true,
            since: None,
        }],
        last_decision: serde_json::from_value(decision).unwrap(),
        warnings: vec!["CAP_IPC_LOCK is missing".to_owned()],
        ..Status::default()
    }
}

fn ranking(signal: Option<Signal>) -> Result<Value, Unanswered> {
    match signal {
        Some(Signal::PidAvailable) => Err(Unanswered::Refused(
            "pid.available is not looked at here".to_owned(),
        )),
        Some(Signal::NodefsAvailable) => Err(Unanswered::NotYet("the first walk is under way")),
        _ => Ok(json!({
            "signal": "memory.available", "next": "shop/hog", "ageSeconds": 7,
            "pods": [
                { "pod": "shop/hog", "rank": 1, "exceedsRequest": true, "priority": 0, "usage": "307200Ki",
                  "request": "50Mi", "overage": "250Mi", "qos": "Burstable" },
                { "pod": "kube-system/dns", "rank": 2, "critical": true, "priority": 2_000_000_000 },
            ],
        })),
    }
}

fn run(socket: &Path, arguments: &[&str]) -> Output {
    program::run(crate::evictd(arguments).arg("--socket").arg(socket), "")
}

fn refused(output: &Output, code: i32) -> String {
    assert!(output.stdout.is_empty(), "{output:?}");
    refusal(output, code)
}

fn shows(page: &str, parts: &[&str]) {
    for part in parts {
        assert!(page.contains(part), "{part:?} in\n{page}");
    }
}

#[test]
fn status_shows_the_worst_first() {
    let daemon = Daemon::start();
    let page = program::page(&daemon.run(&["status"]));
    assert!(
        page.starts_with(
            "UNDER PRESSURE: memory.available is 80Mi, below the hard threshold of 100Mi.\n"
        ),
        "{page}"
    );
    shows(
        &page,
        &[
            "CAP_IPC_LOCK",
            "MACHINE",
            "Linux",
            "hard <100Mi",
            "-20Mi",
            "LOW",
            "MemoryPressure",
            "shop/hog",
        ],
    );
}

#[test]
fn status_is_one_document_for_programs() {
    let daemon = Daemon::start();
    let document: Value =
        serde_json::from_str(&program::page(&daemon.run(&["status", "-o", "json"]))).unwrap();
    assert_eq!(document["signals"][0]["available"], 80 << 20);
    assert!(document["machine"]["memoryBytes"].as_u64().unwrap() > 0);
    let yaml = program::page(&daemon.run(&["status", "-o", "yaml"]));
    let same: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(same["signals"], document["signals"]);
}

#[test]
fn rank_shows_the_keys_and_the_spared_pods() {
    let daemon = Daemon::start();
    let page = program::page(&daemon.run(&["rank"]));
    shows(
        &page,
        &[
            "For memory.available, shop/hog would be evicted next (from figures up to 7s old).",
            "300Mi",
            "250Mi",
            "never evicted: critical",
        ],
    );
    let told = refused(&daemon.run(&["rank", "--signal", "pid.available"]), 2);
    shows(&told, &["pid.available is not looked at here"]);
    let page = program::page(&daemon.run(&["rank", "--signal", "imagefs.available"]));
    shows(&page, &["shop/hog would be evicted next"]); // asked again while it was being measured
    let told = refused(&daemon.run(&["rank", "--signal", "nodefs.available"]), 1);
    shows(&told, &["the first walk is under way"]);
    let told = refused(&daemon.run(&["rank", "--signal", "memory.free"]), 2);
    shows(&told, &["memory.free", "memory.available"]);
}

#[test]
fn history_lists_and_shows_one_in_full() {
    let daemon = Daemon::start();
    let page = program::page(&daemon.run(&["history"]));
    shows(&page, &["2026-11-21 13:15:00Z", "d-1", "shop/hog", "120ms"]);
    for (id, told) in [("d-2", "dry run"), ("d-3", "FAILED: no permission to kill")] {
        shows(&page, &[id, told]);
        shows(&program::page(&daemon.run(&["history", id])), &[told]);
    }
    let page = program::page(&daemon.run(&["history", "d-1"]));
    shows(
        &page,
        &[
            "80Mi available of 512Mi",
            "below 100Mi",
            "it uses the most",
            "shop/cart",
            "300Mi",
            "passed over for now: its disruption budget does not allow it",
        ],
    );
    let all: Value =
        serde_json::from_str(&program::page(&daemon.run(&["history", "-o", "json"]))).unwrap();
    assert_eq!(all[0]["uid"], "u-1");
    shows(&refused(&daemon.run(&["history", "d-9"]), 2), &["d-9"]);
}

#[test]
fn top_prints_one_frame_where_there_is_no_terminal() {
    let daemon = Daemon::start();
    let page = program::page(&daemon.run(&["top"]));
    shows(
        &page,
        &[
            "node-1",
            "UNDER PRESSURE",
            "┃",
            "shop/hog",
            "kube-system/dns",
        ],
    );
    assert!(!page.contains('\u{1b}'), "no escape sequences in a pipe");
}

#[test]
fn without_a_daemon_the_socket_is_named_and_how_to_start_one() {
    let directory = tempfile::tempdir().unwrap();
    let nothing = directory.path().join("evictd.sock");
    let dead = directory.path().join("dead.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    for command in ["status", "rank", "disk", "history", "top"] {
        for socket in [&nothing, &dead] {
            let told = refused(&run(socket, &[command]), 1);
            shows(
                &told,
                &[
                    socket.to_str().unwrap(),
                    "systemctl start evictd",
                    "evictd run",
                ],
            );
        }
    }
}

#[test]
fn without_permission_the_group_of_the_socket_is_named() {
    if !nix::unistd::Uid::effective().is_root() {
        return left_out(
            "without_permission_the_group_of_the_socket_is_named",
            "needs root to become somebody else",
        );
    }
    let daemon = Daemon::start();
    let directory = daemon.directory.path();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The build may lie where nobody else can look. `cp` copies it, so that no other test's child can inherit a
    // descriptor open for writing and make the program busy.
    let program = directory.join("evictd");
    let copied = Command::new("cp")
        .arg(crate::node::EVICTD)
        .arg(&program)
        .status()
        .unwrap();
    assert!(copied.success());
    let output = Command::new(&program)
        .uid(NOBODY)
        .gid(NOBODY)
        .args(["status", "--socket"])
        .arg(&daemon.socket)
        .output()
        .unwrap();
    let told = refused(&output, 3);
    shows(
        &told,
        &[daemon.socket.to_str().unwrap(), "group", "usermod"],
    );
}
