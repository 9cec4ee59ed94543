//! `evictd-scheduler simulate` with a timeline of events for the queue.

use crate::scheduler;
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

fn simulate(timeline: &Value, arguments: &[&str]) -> Output {
    let mut command = scheduler();
    command.args(["simulate", "-"]).args(arguments);
    program::run(&mut command, timeline.to_string())
}

fn oracle() -> impl Iterator<Item = Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduling/tests/oracle/queue");
    fs::read_dir(folder).unwrap().map(|entry| {
        let text = fs::read(entry.unwrap().path()).unwrap();
        serde_json::from_slice(&text).unwrap()
    })
}

#[test]
fn all_timelines_of_the_real_scheduler() {
    let mut count = 0;
    for case in oracle() {
        let output = simulate(&case["input"], &["-o", "json"]);
        assert_eq!(
            answer(&output),
            case["expected"],
            "{}",
            case["input"]["name"]
        );
        assert_eq!(stderr(&output), "", "{}", case["input"]["name"]);
        count += 1;
    }
    assert!(count >= 37, "only {count} cases found");
}

#[test]
fn a_page_shows_every_step_in_80_columns() {
    let case = oracle().next().unwrap();
    let mut command = scheduler();
    command.args(["simulate", "-"]).env("COLUMNS", "80");
    let output = program::run(&mut command, case["input"].to_string());
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    let steps = case["input"]["steps"].as_array().unwrap().len();
    let table = page.lines().take_while(|line| !line.is_empty());
    assert_eq!(table.count(), steps + 1, "{page}");
}

/// The timeline of these steps is refused with all of this on stderr.
#[track_caller]
fn refused(timeline: &Value, told: &[&str]) {
    let output = simulate(timeline, &[]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for told in told {
        assert!(text.contains(told), "{told:?} is not in\n{text}");
    }
}

#[test]
fn every_mistake_of_a_timeline_is_told_with_its_place() {
    let pod = json!({ "kind": "Pod", "metadata": { "name": "a" }, "spec": { "priority": "high" } });
    let wrong = json!({ "now": "2026-01-01T00:00:00Z", "steps": [
        { "at": 1, "do": "add", "object": pod },
        { "at": "soon", "do": "leap" },
    ]});
    let told = [
        ":1:",
        "steps[0].object.spec.priority: invalid type: string \"high\", expected i32",
        "steps[1].at: invalid type: string \"soon\"",
        "steps[1].do: unknown variant `leap`",
    ];
    refused(&wrong, &told);
    let backoff = json!({ "podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 1 });
    let incomplete = json!({ "now": "2026-01-01T00:00:00Z", "config": backoff, "steps": [
        { "at": 5, "do": "assume", "pod": "shop/web" },
        { "at": 3, "do": "unschedulable", "plugins": ["Fit"] },
        {},
    ]});
    let told = [
        "config.podMaxBackoffSeconds: 1: must be at least podInitialBackoffSeconds, 5",
        "steps[0]: needs the key \"node\"",
        "steps[1]: needs the key \"pod\"",
        "steps[1]: no plugin that rejects pods is named \"Fit\"",
        "steps[1]: at is before that of the step before",
        "steps[2]: needs the key \"do\"",
        "steps[2]: needs the key \"at\"",
    ];
    refused(&incomplete, &told);
}

#[test]
fn a_file_of_pods_in_queue_order_is_refused_for_now() {
    let pending = json!({ "now": "2026-01-01T00:00:00Z", "pending": [] });
    refused(&pending, &["pending", "a file with steps is needed"]);
}

#[test]
fn a_step_that_cannot_be_done_is_told_and_the_rest_goes_on() {
    let timeline = json!({ "now": "2026-01-01T00:00:00Z", "steps": [
        { "at": 1, "do": "error", "pod": "shop/web" },
        { "at": 2, "do": "pop" },
    ]});
    let output = simulate(&timeline, &["-o", "json"]);
    assert!(stderr(&output).contains("steps[0]: pod shop/web is not in flight"));
    assert_eq!(answer(&output)["steps"], json!([{}, { "popped": null }]));
}
