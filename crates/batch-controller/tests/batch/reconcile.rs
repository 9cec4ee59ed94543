//! `evictd-batch reconcile`: a file becomes an answer, or a clear error.

use crate::batch;
use evictd_testkit::program;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

fn answered(input: &Value, arguments: &[&str]) -> Value {
    let mut command = batch();
    command
        .args(["reconcile", "-", "-o", "json"])
        .args(arguments);
    program::answer(&program::run(&mut command, input.to_string()))
}

#[test]
fn files_of_each_kind_are_distinguished() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for case in [
        "batch-jobs/tests/oracle/job/0223.json",
        "batch-jobs/tests/oracle/job/0089.json",
        "batch-jobs/tests/oracle/job/0306.json",
        "batch-jobs/tests/oracle/queue/0070.json",
        "batch-jobs/tests/oracle/queue/0018.json",
        "batch-workflows/tests/oracle/cronjob/0019.json",
        "batch-workflows/tests/oracle/jobflow/0003.json",
        "batch-workflows/tests/oracle/jobtemplate/0003.json",
    ] {
        let text = fs::read_to_string(crates.join(case)).unwrap();
        let case: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            answered(&case["input"], &["--form", "volcano"]),
            case["expected"]
        );
    }
}

fn finished() -> Value {
    json!({
        "job": {
            "metadata": {"name": "train", "namespace": "ml"},
            "spec": {"queue": "q", "maxRetry": 3, "minAvailable": 1, "tasks": [{"name": "w", "replicas": 1}]},
            "status": {"state": {"phase": "Completed"}, "version": 4, "succeeded": 1},
        },
        "request": {"action": "SyncJob"},
    })
}

#[test]
fn the_default_form_is_evictd() {
    assert_eq!(answered(&finished(), &[])["status"]["version"], 4);
    assert_eq!(
        answered(&finished(), &["--form", "volcano"])["status"]["version"],
        5
    );
}

#[test]
fn the_page_of_reconcile_lists_phase_and_pods() {
    let mut command = batch();
    let output = program::run(command.args(["reconcile", "-"]), finished().to_string());
    let page = program::page(&output);
    assert!(
        page.contains("phase         Completed\nversion       4\n"),
        "{page}"
    );
}

#[test]
fn invalid_input_is_an_error_with_its_place() {
    let table = [
        (
            json!({}),
            "request: missing; what is to be answered is a request or a handler",
        ),
        (json!({"request": {}}), "job: the request needs one"),
        (
            json!({"job": {}, "request": {}}),
            "job: it needs metadata.name",
        ),
        (
            json!({"job": {}, "queues": []}),
            "queues: a file holds either a job or queues, and this one holds both",
        ),
        (
            json!({"handler": "addpod"}),
            "handler: \"addpod\" is none; there are addPod",
        ),
        (json!({"handler": "addPod"}), "new: the handler needs it"),
        (
            json!({"queues": [{"metadata": 7}], "request": {}}),
            "queues: ",
        ),
        (
            json!({"kind": "cronJob"}),
            "kind: \"cronJob\" is none; there are cronjob, jobflow and jobtemplate",
        ),
        (
            json!({"kind": "cronjob"}),
            "cronJob: missing; the kind of the file needs it",
        ),
        (json!({"pods": 7}), "pods: invalid type: integer `7`"),
    ];
    for (input, message) in table {
        let mut command = batch();
        let output = program::run(command.args(["reconcile", "-"]), input.to_string());
        let refusal = program::refusal(&output, 2);
        assert!(refusal.contains(message), "{refusal}");
    }
}
