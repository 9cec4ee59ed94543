//! Recorded answers of the controllers of Volcano ed72c7c8 to requests and changes; ours are equal.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_jobs::reconcile::{JobCase, QueueCase, WorkflowCase};
use evictd_batch_objects::Compat;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// The cases of a folder, by file name.
fn cases(folder: &str) -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/oracle")
        .join(folder);
    let mut cases: Vec<(String, Value)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).unwrap())
        })
        .collect();
    cases.sort_by(|a, b| a.0.cmp(&b.0));
    cases
}

/// The fields that differ, those left out that are free.
fn differences(expected: &Value, answer: &Value) -> Vec<String> {
    let (expected, answer) = (expected.as_object().unwrap(), answer.as_object().unwrap());
    let free = expected.get("free").and_then(Value::as_array);
    let free =
        |key: &str| key == "free" || free.is_some_and(|free| free.iter().any(|field| field == key));
    let keys = expected
        .keys()
        .chain(answer.keys().filter(|key| !expected.contains_key(*key)));
    keys.filter(|key| !free(key) && expected.get(*key) != answer.get(*key))
        .map(|key| {
            let (wanted, got) = (expected.get(key), answer.get(key));
            format!("  {key}\n    wanted {wanted:?}\n    got    {got:?}")
        })
        .collect()
}

fn check(folder: &str, count: usize, answer: impl Fn(&Value) -> Value) {
    let cases = cases(folder);
    assert_eq!(cases.len(), count);
    let mut wrong = Vec::new();
    for (name, case) in cases {
        let found = differences(&case["expected"], &answer(&case["input"]));
        if !found.is_empty() {
            let tags = &case["tags"];
            wrong.push(format!("{name} {tags}\n{}", found.join("\n")));
        }
    }
    let all = wrong.len();
    assert!(
        wrong.is_empty(),
        "{all} of {count} differ:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn every_request_to_a_job_is_answered_as_volcanos_controller_does() {
    check("job", 59, |input| {
        let case: JobCase = serde_json::from_value(input.clone()).unwrap();
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        let outcome = case.answer(Compat::VOLCANO, now).unwrap();
        serde_json::to_value(outcome).unwrap()
    });
}

#[test]
fn every_request_to_a_queue_is_answered_as_volcanos_controller_does() {
    check("queue", 18, |input| {
        let case: QueueCase = serde_json::from_value(input.clone()).unwrap();
        serde_json::to_value(case.answer().unwrap()).unwrap()
    });
}

/// The answer to a sync of a cron job, a flow or a job template.
fn workflow(input: &Value) -> Value {
    let case: WorkflowCase = serde_json::from_value(input.clone()).unwrap();
    let now = "2026-01-01T01:00:00Z".parse().unwrap();
    serde_json::to_value(case.answer(Compat::VOLCANO, now).unwrap()).unwrap()
}

#[test]
fn every_sync_of_a_cron_job_is_answered_as_volcanos_controller_does() {
    check("cronjob", 23, workflow);
}

#[test]
fn every_sync_of_a_flow_is_answered_as_volcanos_controller_does() {
    check("jobflow", 21, workflow);
}

#[test]
fn every_sync_of_a_job_template_is_answered_as_volcanos_controller_does() {
    check("jobtemplate", 3, workflow);
}
