//! `evictd-batch demo`.

use crate::batch;
use evictd_testkit::program::{self, answer, page};
use serde_json::json;

#[test]
fn the_demo_reports_the_expected_sessions() {
    let message = answer(&program::run(batch().args(["demo", "-o", "json"]), ""));
    assert_eq!(message["asExpected"], json!(true));
    let steps = message["steps"].as_array().unwrap();
    let evicted: Vec<&str> = steps
        .iter()
        .flat_map(|step| step["evicted"].as_array().unwrap())
        .map(|pod| pod.as_str().unwrap())
        .collect();
    assert_eq!(evicted.len(), 3, "{message}");
    assert!(evicted.iter().all(|pod| pod.starts_with("default/sweep-")));
    let train = steps
        .iter()
        .filter(|step| step["bound"].to_string().contains("train"));
    let train: Vec<_> = train
        .map(|step| step["bound"].as_array().unwrap().len())
        .collect();
    assert_eq!(train, [3]);
    let last = &steps.last().unwrap()["waiting"]["report"];
    assert!(
        last.as_str().unwrap().contains("no room now for 2 pods"),
        "{last}"
    );
}

#[test]
fn without_a_terminal_the_demo_prints_its_log() {
    let shown = page(&program::run(batch().arg("demo").env("COLUMNS", "80"), ""));
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    assert!(!shown.contains('\u{1b}'), "{shown}");
    for wanted in [
        "0:10  reclaim evicts 3 pods of sweep",
        "train starts: all 3 pods",
        "report waits:",
        "ok   the gang starts as a whole",
    ] {
        assert!(shown.contains(wanted), "{wanted}:\n{shown}");
    }
}
