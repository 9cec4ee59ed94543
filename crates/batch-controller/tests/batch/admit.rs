//! `evictd-batch admit`.

use crate::batch;
use evictd_testkit::program::{self, answer, page, refusal};
use serde_json::{Value, json};
use std::path::Path;

fn admit(input: &Value, arguments: &[&str]) -> std::process::Output {
    let mut command = batch();
    program::run(
        command.args(["admit", "-"]).args(arguments),
        input.to_string(),
    )
}

#[test]
fn every_answer_of_the_real_webhook_through_the_program() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../batch-admission/tests/oracle/webhook");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // Only what is filled in is written otherwise.
        let alike = case["input"]["path"] != "/jobs/mutate";
        let form = if alike && count % 2 == 0 {
            "evictd"
        } else {
            "volcano"
        };
        let answer_here = answer(&admit(&case["input"], &["-o", "json", "--form", form]));
        assert_eq!(answer_here, case["expected"], "{}", path.display());
        count += 1;
    }
    assert!(count >= 44);
}

#[test]
fn the_page_of_admit_shows_the_verdict_and_the_patch() {
    let queue = json!({"metadata": {"name": "q"}, "spec": {}});
    let made = json!({"path": "/queues/mutate", "operation": "CREATE", "object": queue});
    let expected = "allowed\n/spec/reclaimable = true\n/spec/weight = 1\n";
    assert_eq!(page(&admit(&made, &[])), expected);
    let deleted = json!({"path": "/queues/validate", "operation": "DELETE", "name": "root"});
    assert_eq!(
        page(&admit(&deleted, &[])),
        "denied: `root` queue can not be deleted\n"
    );
}

#[test]
fn an_invalid_request_is_an_error_with_its_place() {
    for (question, message) in [
        (
            "{\"path\": \"/jobs\"}",
            "standard input:1:10: path: there is nothing at \"/jobs\"",
        ),
        (
            "{\"path\": \"/pods/mutate\", \"flags\": {\"width\": 1}}",
            "standard input:1:35: flags: there is no flag width",
        ),
        (
            "path: [1]\nqueues: x\n",
            "standard input:1:7: path: invalid type",
        ),
        ("", "standard input"),
    ] {
        let mut command = batch();
        let output = program::run(command.args(["admit", "-"]), question);
        let said = refusal(&output, 2);
        assert!(said.contains(message), "{question}: {said}");
    }
}
