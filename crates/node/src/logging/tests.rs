use super::*;
use crate::publish::journal::announce;
use evictd_decision::{Cause, Decision, Eviction};
use evictd_signals::StarvedResource;
use evictd_testkit::testing::with_tmpfs;
use std::collections::HashMap;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Parses the journal's native protocol: `NAME=value\n`, or `NAME\n`, 64 bits of length, value, `\n`.
fn parse(mut datagram: &[u8]) -> HashMap<String, String> {
    let mut fields = HashMap::new();
    while !datagram.is_empty() {
        let end = datagram.iter().position(|byte| *byte == b'\n').unwrap();
        let line = std::str::from_utf8(&datagram[..end]).unwrap();
        datagram = &datagram[end + 1..];
        if let Some((name, value)) = line.split_once('=') {
            fields.insert(name.to_owned(), value.to_owned());
            continue;
        }
        let (length, rest) = datagram.split_first_chunk::<8>().unwrap();
        let length = usize::try_from(u64::from_le_bytes(*length)).unwrap();
        let value = String::from_utf8(rest[..length].to_vec()).unwrap();
        fields.insert(line.to_owned(), value);
        datagram = &rest[length + 1..];
    }
    fields
}

fn receive(journald: &UnixDatagram) -> HashMap<String, String> {
    let mut buffer = [0; 8192];
    let length = journald.recv(&mut buffer).unwrap();
    parse(&buffer[..length])
}

fn fake_journald(run: &Path) -> UnixDatagram {
    let directory = run.join("systemd/journal");
    std::fs::create_dir_all(&directory).unwrap();
    let socket = UnixDatagram::bind(directory.join("socket")).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    socket
}

#[test]
fn the_journal_gets_the_fields_of_event_and_spans() {
    with_tmpfs(
        "the_journal_gets_the_fields_of_event_and_spans",
        PathBuf::from("/run"),
        1024,
        |run| {
            let journald = fake_journald(run);
            let (queue, guard) = Queue::new(Some(open_journal().unwrap()));
            guard.start().unwrap();
            assert!(
                receive(&journald).is_empty(),
                "connecting sends one empty datagram"
            );
            tracing::subscriber::with_default(subscriber(filter(None).unwrap(), queue), || {
                let _cycle = tracing::info_span!("cycle", tick = 7, signal = tracing::field::Empty)
                    .entered();
                tracing::Span::current().record("signal", "memory.available");
                tracing::debug!("filtered out");
                tracing::warn!(EVICTD_POD = "shop/cart", bytes = 42, "two\nlines");
                tracing::warn!(EVICTD_POD = "\u{1b}[2J", "process \u{9b}2J");
            });
            drop(guard);
            let entry = receive(&journald);
            let field = |name: &str| entry.get(name).map(String::as_str);
            assert_eq!(field("MESSAGE"), Some("two\nlines"));
            assert_eq!(field("PRIORITY"), Some("4"));
            assert_eq!(field("SYSLOG_IDENTIFIER"), Some("evictd"));
            assert_eq!(field("TARGET"), Some(module_path!()));
            assert!(field("CODE_FILE").unwrap().ends_with("tests.rs"));
            assert_eq!(field("TICK"), Some("7"));
            assert_eq!(field("SIGNAL"), Some("memory.available"));
            assert_eq!(field("EVICTD_POD"), Some("shop/cart"));
            assert_eq!(field("BYTES"), Some("42"));
            // What others have named cannot steer the terminal of whoever reads it.
            let entry = receive(&journald);
            assert_eq!(entry["MESSAGE"], "process \\u009b2J");
            assert_eq!(entry["EVICTD_POD"], "\\u001b[2J");
        },
    );
}

fn decision() -> Decision {
    let eviction = Eviction {
        index: 0,
        pod: "shop/cart".to_owned(),
        grace_period_seconds: 0,
        reason: "Evicted",
        message: "The node was low. ".to_owned(),
        annotations: std::collections::BTreeMap::new(),
        disruption_target: true,
    };
    Decision {
        time: jiff::Timestamp::UNIX_EPOCH,
        kind: Cause::Hard,
        signal: "memory.available",
        resource: StarvedResource::Memory,
        threshold: None,
        eviction: Some(eviction),
        uid: Some("u-1".to_owned()),
        owner: None,
        withheld: None,
        passed_over: None,
        ranked: Vec::new(),
        runner_up: None,
        expected_gain: None,
        shares: None,
        parts: Vec::new(),
        why: "it is the only one".to_owned(),
    }
}

#[test]
fn a_decision_can_be_searched_for_by_its_fields() {
    let name = "a_decision_can_be_searched_for_by_its_fields";
    with_tmpfs(name, PathBuf::from("/run"), 1024, |run| {
        let journald = fake_journald(run);
        let (queue, guard) = Queue::new(Some(open_journal().unwrap()));
        guard.start().unwrap();
        receive(&journald);
        let decision = decision();
        tracing::subscriber::with_default(subscriber(filter(None).unwrap(), queue), || {
            announce("d-1", &decision, (false, None), None);
            announce("d-1", &decision, (true, None), Some("sleep"));
        });
        drop(guard);
        let entry = receive(&journald);
        let promised = [
            ("MESSAGE", "evicting shop/cart: it is the only one"),
            ("EVICTD_SIGNAL", "memory.available"),
            ("EVICTD_POD_UID", "u-1"),
            ("EVICTD_POD", "shop/cart"),
            ("EVICTD_KIND", "hard"),
            ("EVICTD_DECISION_ID", "d-1"),
        ];
        for (name, value) in promised {
            assert_eq!(entry.get(name).map(String::as_str), Some(value), "{name}");
        }
        assert_eq!(entry["MESSAGE_ID"].len(), 32);
        assert!(receive(&journald)["MESSAGE"].starts_with("would evict shop/cart"));
    });
}

#[test]
fn the_journal_receives_the_log_of_dependencies() {
    with_tmpfs(
        "the_journal_receives_the_log_of_dependencies",
        PathBuf::from("/run"),
        1024,
        |run| {
            let journald = fake_journald(run);
            let (queue, guard) = Queue::new(Some(open_journal().unwrap()));
            guard.start().unwrap();
            receive(&journald);
            tracing::subscriber::with_default(subscriber(filter(None).unwrap(), queue), || {
                let args = format_args!("from a dependency");
                let record = log::Record::builder()
                    .level(log::Level::Error)
                    .target("dependency")
                    .args(args)
                    .build();
                tracing_log::format_trace(&record).unwrap();
            });
            drop(guard);
            let entry = receive(&journald);
            assert_eq!(entry["MESSAGE"], "from a dependency");
            assert_eq!(entry["PRIORITY"], "3");
            assert_eq!(entry["TARGET"], "dependency");
            assert!(
                !entry.keys().any(|name| name.starts_with("LOG_")),
                "{entry:?}"
            );
        },
    );
}

#[test]
fn a_blocked_journal_delays_no_one_and_lost_lines_are_counted() {
    let name = "a_blocked_journal_delays_no_one_and_lost_lines_are_counted";
    with_tmpfs(name, PathBuf::from("/run"), 1024, |run| {
        let journald = fake_journald(run);
        let (queue, guard) = Queue::new(Some(open_journal().unwrap()));
        guard.start().unwrap();
        receive(&journald);
        tracing::subscriber::with_default(subscriber(filter(None).unwrap(), queue), || {
            for line in 0..5000 {
                tracing::info!(line, "busy");
            }
        });
        // From here on it reads again.
        let mut told = false;
        while !told {
            told = receive(&journald)["MESSAGE"].contains("lost");
        }
        drop(guard);
    });
}

#[test]
fn without_a_journal_the_socket_is_missed() {
    with_tmpfs(
        "without_a_journal_the_socket_is_missed",
        PathBuf::from("/run"),
        1024,
        |_| {
            assert!(open_journal().is_err());
        },
    );
}

#[test]
fn a_malformed_log_filter_is_reported() {
    let unasked = filter(None).unwrap();
    assert_eq!(unasked.default_level(), Some(LevelFilter::INFO));
    assert!(!unasked.would_enable("kube_client::client", &tracing::Level::ERROR));
    let asked = filter(Some("kube_client=debug".to_owned())).unwrap();
    assert!(asked.would_enable("kube_client::client", &tracing::Level::DEBUG));
    let given = filter(Some("debug,hyper=warn".to_owned())).unwrap();
    assert_eq!(given.default_level(), Some(LevelFilter::DEBUG));
    assert!(!given.would_enable("hyper", &tracing::Level::INFO));
    let one = filter(Some("hyper=trace".to_owned())).unwrap();
    assert_eq!(one.default_level(), Some(LevelFilter::INFO));
    let error = filter(Some("evictd=loud".to_owned()))
        .unwrap_err()
        .to_string();
    assert!(error.contains("EVICTD_LOG=\"evictd=loud\""), "{error}");
}
