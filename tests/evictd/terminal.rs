//! What an operator sees on a terminal of 80 columns or a little more, with pods whose names are as long as real ones.

mod evidence;

use evictd_kernel::clock::Clock;
use evictd_testkit::program;
use nix::fcntl::OFlag;
use nix::pty::{PtyMaster, grantpt, posix_openpt, ptsname_r, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::{Read, Write},
    os::fd::OwnedFd,
    os::unix::fs::OpenOptionsExt,
    os::unix::net::UnixListener,
    path::Path,
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::Duration,
};
use tempfile::TempDir;
use vt100::{Color, Parser};

const PODS: usize = 20;
/// No command takes longer than this.
const LIMIT: Duration = Duration::from_mins(1);

/// A terminal that shows what it is told and never answers a question.
struct Terminal {
    rows: u16,
    columns: u16,
    variables: Vec<(&'static str, &'static str)>,
}

/// What a program left on it.
struct Seen {
    /// Everything that was written, without line ends' carriage returns.
    written: String,
    screen: Parser,
    /// What was on the screen before a key was pressed.
    before_key: Option<String>,
    code: Option<i32>,
}

impl Seen {
    fn text(&self) -> String {
        self.screen.screen().contents()
    }

    /// Whether anything on the screen has a colour of its own.
    fn has_colours(&self) -> bool {
        let screen = self.screen.screen();
        let (rows, columns) = screen.size();
        (0..rows).any(|row| {
            (0..columns).any(|column| {
                let cell = screen.cell(row, column);
                cell.is_some_and(|cell| cell.fgcolor() != Color::Default)
            })
        })
    }
}

/// Both ends of a terminal. They are closed in whatever another test starts meanwhile, or the program's end would not be seen
/// before that ends.
fn ends(rows: u16, columns: u16) -> (PtyMaster, File) {
    let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
    let master = posix_openpt(flags).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let mut slave = File::options();
    slave
        .read(true)
        .write(true)
        .custom_flags(OFlag::O_NOCTTY.bits());
    let slave = slave.open(ptsname_r(&master).unwrap()).unwrap();
    let size = Winsize {
        ws_row: rows,
        ws_col: columns,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    tcsetwinsize(&slave, size).unwrap();
    (master, slave)
}

impl Terminal {
    fn new(columns: u16, rows: u16) -> Self {
        Self {
            rows,
            columns,
            variables: vec![("TERM", "xterm-256color")],
        }
    }

    fn with(mut self, name: &'static str, value: &'static str) -> Self {
        self.variables.push((name, value));
        self
    }

    fn run(&self, folder: &Path, arguments: &[&str]) -> Seen {
        self.run_until(folder, arguments, None)
    }

    /// Runs the program to its end; presses a key once the screen shows these words.
    fn run_until(&self, folder: &Path, arguments: &[&str], key: Option<(&str, &str)>) -> Seen {
        let (master, slave) = ends(self.rows, self.columns);
        let end = || Stdio::from(slave.try_clone().unwrap());
        // A session of its own, whose terminal this is.
        let mut child = Command::new("setsid")
            .args(["--ctty", "--wait", env!("CARGO_BIN_EXE_evictd")])
            .args(arguments)
            .current_dir(folder)
            .env_remove("COLUMNS")
            .env_remove("NO_COLOR")
            .envs(self.variables.iter().copied())
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        drop(slave);
        let mut master = File::from(OwnedFd::from(master));
        let mut keyboard = master.try_clone().unwrap();
        let (sender, pieces) = channel();
        thread::spawn(move || {
            let mut piece = vec![0; 1 << 16];
            // The end is told as an error.
            while let Ok(count @ 1..) = master.read(&mut piece) {
                if sender.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        let mut written = Vec::new();
        let mut screen = Parser::new(self.rows, self.columns, 0);
        let mut before_key = None;
        let clock = Clock::start();
        let deadline = clock.now() + LIMIT;
        loop {
            match pieces.recv_timeout(deadline.duration_since(clock.now()).unsigned_abs()) {
                Ok(piece) => {
                    screen.process(&piece);
                    written.extend(piece);
                }
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    child.kill().unwrap();
                    panic!(
                        "{arguments:?} does not end:\n{}",
                        screen.screen().contents()
                    );
                }
            }
            if let Some((words, pressed)) = key
                && before_key.is_none()
                && screen.screen().contents().contains(words)
            {
                before_key = Some(screen.screen().contents());
                keyboard.write_all(pressed.as_bytes()).unwrap();
            }
        }
        Seen {
            written: String::from_utf8(written).unwrap().replace('\r', ""),
            screen,
            before_key,
            code: child.wait().unwrap().code(),
        }
    }
}

/// As a workload's pod is called: 62 characters.
fn pod_name(index: usize) -> String {
    let application = [
        "checkout-payments-worker-asynchronous-production",
        "customer-recommendation-indexer-production-west1",
        "prometheus-kube-state-metrics-agent-production-a",
    ][index % 3];
    format!("{application}-7d9f8c6b-x{index:03}")
}

fn namespace(index: usize) -> &'static str {
    ["shop", "payments-production"][index % 2]
}

/// The captured node of the fixtures, with 20 pods of long names.
fn capture() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let fixture = |name: &str| -> Value {
        let path = format!(
            "{}/tests/fixtures/explain/{name}",
            env!("CARGO_MANIFEST_DIR")
        );
        serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
    };
    let (mut pods, mut summary) = (fixture("pods.json"), fixture("summary.json"));
    let (pod, stats) = (pods["items"][0].clone(), summary["pods"][0].clone());
    let of = |index: usize| (pod_name(index), namespace(index), format!("uid-{index}"));
    pods["items"] = (0..PODS)
        .map(|index| {
            let (name, namespace, uid) = of(index);
            let mut pod = pod.clone();
            pod["metadata"] = json!({ "name": name, "namespace": namespace, "uid": uid });
            pod["spec"]["priority"] = json!(index);
            pod
        })
        .collect();
    summary["pods"] = (0..PODS)
        .map(|index| {
            let (name, namespace, uid) = of(index);
            let mut stats = stats.clone();
            stats["podRef"] = json!({ "name": name, "namespace": namespace, "uid": uid });
            stats
        })
        .collect();
    fs::write(folder.path().join("pods.json"), pods.to_string()).unwrap();
    fs::write(folder.path().join("summary.json"), summary.to_string()).unwrap();
    let short = "kind: EvictionConfiguration\nevictionHard: { memory.available: 20Gi }\n";
    fs::write(folder.path().join("short.yaml"), short).unwrap();
    folder
}

const EXPLAIN: [&str; 9] = [
    "explain",
    "--pods",
    "pods.json",
    "--summary",
    "summary.json",
    "--config",
    "short.yaml",
    "--now",
    "2026-11-21T00:12:20Z",
];

/// No line is longer than the terminal is wide, which would break it where it will.
fn assert_fits(seen: &Seen, columns: u16) {
    let written = without_colours(&seen.written);
    for line in written.lines() {
        let width = line.chars().count();
        assert!(
            width <= usize::from(columns),
            "{width} columns: {line}\n{written}"
        );
    }
}

fn without_colours(written: &str) -> String {
    let mut parts = written.split('\u{1b}');
    let mut text = parts.next().unwrap().to_owned();
    for part in parts {
        text += part.split_once('m').unwrap().1;
    }
    text
}

/// Something of a shortened name that tells it from the others.
fn tail(index: usize) -> String {
    format!("-x{index:03}")
}

#[test]
fn explain_fits_the_terminal() {
    let folder = capture();
    for columns in [80, 100, 140] {
        let seen = Terminal::new(columns, 60).run(folder.path(), &EXPLAIN);
        assert_eq!(seen.code, Some(0), "{}", seen.written);
        assert_fits(&seen, columns);
        let page = without_colours(&seen.written);
        for index in 0..PODS {
            assert!(page.contains(&tail(index)), "{columns}: {index}\n{page}");
        }
        for shown in [
            "without a grace",
            "MET, acts now",
            "whose threshold acts now:",
            "payme",
        ] {
            assert!(page.contains(shown), "{shown}\n{page}");
        }
        let names_more = page.contains("(-o wide adds ");
        assert_eq!(names_more, columns < 140, "{columns}\n{page}");
        assert!(seen.has_colours());
    }
}

#[test]
fn wide_output_shows_every_pod() {
    let folder = capture();
    let wide = [&EXPLAIN[..], &["-o", "wide"]].concat();
    let seen = Terminal::new(80, 60).run(folder.path(), &wide);
    let mut piped = crate::evictd(&EXPLAIN);
    piped
        .current_dir(folder.path())
        .env_remove("COLUMNS")
        .env("TERM", "xterm");
    let piped = program::page(&program::run(&mut piped, ""));
    assert!(!piped.contains('\u{1b}'), "{piped}");
    for page in [without_colours(&seen.written), piped] {
        for index in 0..PODS {
            let name = format!("{}/{}", namespace(index), pod_name(index));
            assert!(page.contains(&name), "{name}\n{page}");
        }
        assert!(
            page.contains("FIRST VICTIM") && page.contains("QOS"),
            "{page}"
        );
        assert!(!page.contains("-o wide"), "{page}");
    }
}

#[test]
fn colours_follow_the_terminal_and_no_color() {
    let folder = capture();
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let seen = Terminal::new(80, 60)
            .with(name, value)
            .run(folder.path(), &EXPLAIN);
        assert!(!seen.written.contains('\u{1b}'), "{name}={value}");
        assert_fits(&seen, 80);
    }
    let seen = Terminal::new(80, 60)
        .with("COLUMNS", "60")
        .run(folder.path(), &EXPLAIN);
    assert_fits(&seen, 60);
}

#[test]
fn a_name_cannot_colour_a_page() {
    let folder = capture();
    let path = folder.path().join("pods.json");
    let pods = fs::read_to_string(&path).unwrap();
    let evil = pods.replace("asynchronous", "\\u001b[35m\u{e0072}");
    assert_ne!(pods, evil);
    fs::write(path, evil).unwrap();
    let seen = Terminal::new(80, 60).run(folder.path(), &EXPLAIN);
    assert!(!seen.written.contains("[35m\u{1b}"), "{}", seen.written);
    assert!(seen.written.contains("\\u001b"), "{}", seen.written);
    assert!(!without_colours(&seen.written).contains('\u{e0072}'));
}

/// What a daemon under pressure answers.
fn answers(folder: &Path) -> [(&'static str, Value); 4] {
    let mut explained = crate::evictd(&EXPLAIN);
    explained.args(["-o", "json"]).current_dir(folder);
    let explained = program::answer(&program::run(&mut explained, ""));
    let victim = format!("{}/{}", namespace(1), pod_name(1));
    let gib = 1_i64 << 30;
    let signal = |name: &str, available: i64, capacity: i64, threshold: i64| {
        let met = available < threshold;
        let kept = json!({ "kind": "hard", "value": threshold, "configured": "10%", "met": met });
        json!({
            "signal": name, "available": available, "capacity": capacity, "thresholds": [kept],
            "headroom": available - threshold, "ageSeconds": 0.4, "sleepSeconds": 1.5,
        })
    };
    let signals = json!([
        signal("memory.available", gib / 10, 31 * gib, gib),
        signal("allocatableMemory.available", 2 * gib, 30 * gib, gib),
        signal("nodefs.available", 70 * gib, 252 * gib, 25 * gib),
        signal("nodefs.inodesFree", 16_230_720, 16_777_216, 838_860),
        signal("imagefs.available", 70 * gib, 252 * gib, 37 * gib),
        signal("imagefs.inodesFree", 16_230_720, 16_777_216, 838_860),
        { "signal": "containerfs.available", "thresholds": [{ "kind": "hard", "configured": "10%" }],
          "problem": "its source cannot be read: /var/lib/containers/storage/overlay: Permission denied" },
        signal("pid.available", 32_551, 32_768, 3_276),
        { "signal": "swap.available", "absent": "none here: there is no swap" },
    ]);
    let decision = json!({
        "id": "1a2006d362d-1", "time": "2026-11-21T23:26:43Z", "kind": "hard", "signal": "memory.available",
        "pod": victim, "why": format!("{victim} uses 457Mi and requested none, the most of its kind"),
        "message": "The node was low on resource: memory. Threshold quantity: 1Gi, available: 102Mi. ",
        "ranking": explained["pods"], "outcome": { "error": "cgroup.kill: Permission denied" },
    });
    let status = json!({
        "node": "ip-10-0-113-27.eu-west-1.compute.internal-with-a-long-name", "version": "0.1.0", "pid": 4242,
        "uptimeSeconds": 93_784, "rules": "EvictionConfiguration", "signals": signals,
        "sources": [{ "port": "pods.source", "chosen": "kubernetes", "why": "the API server answers and knows this node's pods" }],
        "layout": "one filesystem for everything", "pods": { "active": 20, "unknown": 0, "protected": 1 },
        "conditions": [{ "condition": "MemoryPressure", "raised": true, "since": "2026-11-21T23:26:43Z" }],
        "lastDecision": decision, "history": { "records": 2, "waiting": 0 },
        "warnings": ["the kubelet evicts as well, at the same thresholds, and may pick another pod at the same moment"],
    });
    let ranking = json!({
        "signal": "memory.available", "pods": explained["pods"], "next": explained["next"], "ageSeconds": 3,
    });
    [
        ("/v1/status", status),
        ("/v1/ranking", ranking),
        ("/v1/history", json!([evidence::ended_well(), decision])),
        ("/v1/near-misses", evidence::near_misses()),
    ]
}

/// Answers as a daemon would, until the test ends.
fn daemon(folder: &Path) {
    let answers = answers(folder);
    let listener = UnixListener::bind(folder.join("evictd.sock")).unwrap();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                stream.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let path = request.split(' ').nth(1).unwrap();
            let answer = answers.iter().find(|(known, _)| path.starts_with(known));
            let body = answer.unwrap().1.to_string();
            let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", body.len());
            // Whoever asked may have gone.
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
}

#[test]
fn text_of_the_daemon_is_cut_to_the_terminal() {
    let folder = capture();
    daemon(folder.path());
    for columns in [80, 100] {
        for (command, shown) in [
            (
                &["status"][..],
                &[
                    "UNDER PRESSURE",
                    "WARNING   the kubelet",
                    "hard <10%",
                    "LOW",
                    "MemoryPressure",
                ][..],
            ),
            (
                &["rank"],
                &["would be", "-x000", "-x019", "USAGE", "BECAUSE"],
            ),
            (&["history"], &["1a2006d362d-1", "-x001", "Permission"]),
            (
                &["report", "--since", "36500d"],
                &[
                    "By signal",
                    "By owner",
                    "memory.available",
                    "1a2006d362d-1",
                    "nearly met 14 times",
                    "Near misses",
                    "1.1Gi",
                    "-x003",
                    "900000",
                    "Time under conditions",
                    "14m 24s",
                ],
            ),
            (
                &["history", "1a1f58c3f80-1"],
                &[
                    "HELD BY    java 2.9Gi of 3.1Gi in container app",
                    "3 processes and threads",
                    "anon 2.9Gi",
                    "Largest processes",
                    "a\\n\\u{1b}[2Jb",
                    "Largest parts of its usage",
                    "424Mi",
                    "2.7Gi in models/\\u{1b}large",
                ],
            ),
            (
                &["history", "1a2006d362d-1"],
                &["WHY        ", "-x000", "-x019"],
            ),
        ] {
            let all = [command, &["--socket", "evictd.sock"]].concat();
            let seen = Terminal::new(columns, 60).run(folder.path(), &all);
            assert_eq!(seen.code, Some(0), "{}", seen.written);
            assert_fits(&seen, columns);
            let page = without_colours(&seen.written);
            for words in shown {
                assert!(page.contains(words), "{command:?}: {words}\n{page}");
            }
        }
    }
}

#[test]
fn a_report_counts_the_decisions_of_its_time_for_programs_and_browsers() {
    let folder = capture();
    daemon(folder.path());
    let report = |more: &[&str]| {
        let mut command = crate::evictd(&["report", "--socket", "evictd.sock"]);
        program::run(command.args(more).current_dir(folder.path()), "")
    };
    let all = program::answer(&report(&["--since", "36500d", "-o", "json"]));
    assert_eq!(all["total"]["failed"], 1, "{all}");
    assert_eq!(all["nearMisses"][0]["signal"], "memory.available", "{all}");
    assert_eq!(all["nearMisses"][0]["times"], 12);
    assert_eq!(all["conditions"][0]["seconds"], 864.0);
    assert_eq!(all["signals"][0]["signal"], "memory.available");
    let mut owners = all["owners"].as_array().unwrap().iter();
    assert!(owners.any(|one| one["lastId"] == "1a2006d362d-1"), "{all}");
    assert_eq!(all["kubelet"]["compared"], 1);
    let none = program::answer(&report(&["--since", "1ms", "-o", "json"]));
    assert_eq!(none["total"]["failed"], 0);
    assert_eq!(none["oldest"], "2026-11-19T08:00:00Z");
    let page = program::page(&report(&["--since", "36500d", "-o", "html"]));
    assert!(
        page.starts_with("<!") && page.contains("By owner"),
        "{page}"
    );
    let bad = program::refusal(&report(&["--since", "soon"]), 2);
    assert!(bad.contains("--since"), "{bad}");
}

#[test]
fn top_shows_what_matters_on_a_low_screen() {
    let folder = capture();
    daemon(folder.path());
    for (columns, rows) in [(80, 24), (100, 30)] {
        let arguments = ["top", "--socket", "evictd.sock"];
        let key = Some(("The node was low", "q"));
        let seen = Terminal::new(columns, rows).run_until(folder.path(), &arguments, key);
        assert_eq!(seen.code, Some(0), "{}", seen.written);
        let page = seen.before_key.as_ref().unwrap();
        for words in [
            "evictd 0.1.0 on ip-10-0-113-27",
            "q quits",
            "UNDER PRESSURE: memory.available is 102Mi",
            "the kubelet evicts as well",
            "memory.available",
            "┃",
            "102Mi",
            "threshold      1Gi",
            "its source cannot be read",
            "first victim for memory.available",
            "USAGE",
            "-x003",
            "2026-11-21 23:26:43Z",
        ] {
            assert!(page.contains(words), "{words}\n{page}");
        }
        assert!(!seen.written.contains("\u{1b}[6n"), "it asks the terminal");
    }
}

#[test]
fn the_demo_asks_the_terminal_nothing_and_its_headline_stays() {
    let folder = tempfile::tempdir().unwrap();
    let seen = Terminal::new(80, 24).run(folder.path(), &["demo"]);
    assert_eq!(seen.code, Some(0), "{}", seen.text());
    // Where the cursor is, what the terminal is, which keys it knows.
    for question in ["[6n", "[c", "[?u", "[>q", "]11;?"] {
        let question = format!("\u{1b}{question}");
        assert!(!seen.written.contains(&question), "{question:?}");
    }
    let page = seen.text();
    for words in [
        "evictd demo  memory",
        "hog takes 1 GiB/s",
        "✖ evicted",
        "✔ as expected: hog was evicted",
        "gone after",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
    assert!(page.trim_start().starts_with("evictd demo"), "{page}");
}
