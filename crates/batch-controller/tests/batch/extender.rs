//! Plugin extender with a real server: asked where that is wanted, within bounds.

use crate::batch;
use evictd_testkit::http::serve_all;
use evictd_testkit::objects;
use evictd_testkit::program::{self, answer, page, stderr};
use serde_json::{Value, json};
use std::process::Output;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// A session with two nodes, a job, and a server at this address that judges nodes.
fn session(url: &str, more: &str) -> Value {
    let conf = format!(
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: extender\n    arguments:\n\
         {:6}extender.urlPrefix: {url}\n{:6}extender.predicateVerb: predicate\n{more}",
        "", ""
    );
    let node = |name: &str| objects::node(name).cpu("8").memory("16Gi").json();
    json!({
        "conf": conf, "nodes": [node("a"), node("b")],
        "queues": [objects::queue("default").open().json()],
        "podGroups": [objects::volcano_group("train", 1).phase("Inqueue").json()],
        "pods": [objects::volcano_pod("train-0", "train").cpu("2").json()],
    })
}

fn simulate(session: &Value, arguments: &[&str]) -> Output {
    let mut command = batch();
    command
        .args(["simulate", "-", "-o", "json"])
        .args(arguments);
    program::run(&mut command, session.to_string())
}

#[test]
fn s6_224_a_session_asks_the_server_only_where_that_is_wanted() {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&asked);
    let address = serve_all(move |line, body| {
        let request: Value = serde_json::from_slice(body).unwrap();
        let refused = request["node"]["Name"] == "a";
        noted.lock().unwrap().push(line.to_owned());
        let status = if refused { "is full of cats" } else { "" };
        ("200 OK", json!({"status": status, "code": 2}).to_string())
    });
    let session = session(&format!("http://{address}/v1"), "");
    let without = simulate(&session, &[]);
    assert_eq!(answer(&without)["binds"]["default/train-0"], "a");
    let warning = stderr(&without);
    assert!(
        warning.contains("plugin extender has no say") && warning.contains("--ask-extender"),
        "{warning}"
    );
    assert!(asked.lock().unwrap().is_empty());
    let with = simulate(&session, &["--ask-extender"]);
    assert_eq!(answer(&with)["binds"]["default/train-0"], "b");
    assert_eq!(
        asked.lock().unwrap()[0],
        "POST /v1/predicate HTTP/1.1\r\n".trim_end()
    );
    let mut why = batch();
    why.args(["why", "train", "--cluster", "-", "--ask-extender"]);
    let why = page(&program::run(&mut why, session.to_string()));
    assert!(why.starts_with("train starts"), "{why}");
}

#[test]
fn s6_224_answers_that_fail_or_are_too_long_or_too_late_are_bounded() {
    for (kind, expected) in [
        ("code", "cannot do that"),
        ("long", "an answer of more than 10 MiB"),
        ("wrong", "expected value"),
        ("late", "no answer within 0.2 s"),
    ] {
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let address = serve_all(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
            match kind {
                "code" => ("500 Internal Server Error", "cannot do that".to_owned()),
                "long" => (
                    "200 OK",
                    format!("{{\"status\": \"{}\"}}", "x".repeat(11 << 20)),
                ),
                "wrong" => ("200 OK", "yes".to_owned()),
                _ => loop {
                    std::thread::park();
                },
            }
        });
        let limit = if kind == "late" { "200ms" } else { "5s" };
        let within = format!("{:6}extender.httpTimeout: {limit}\n", "");
        let session = session(&format!("http://{address}"), &within);
        let began = Instant::now();
        let outcome = answer(&simulate(&session, &["--ask-extender"]));
        assert!(began.elapsed() < Duration::from_secs(30), "{kind}");
        assert_eq!(outcome["binds"], json!({}), "{kind}");
        // A silent server delays a session once, not for each of the two nodes.
        let expected_calls = if kind == "late" { 1 } else { 2 };
        assert_eq!(calls.load(Ordering::Relaxed), expected_calls, "{kind}");
        let conditions = outcome["podGroups"]["default/train"]["conditions"].to_string();
        assert!(conditions.contains(expected), "{kind}: {conditions}");
    }
}
