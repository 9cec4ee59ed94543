//! What kube-scheduler 1.36.2 did over random timelines: every key of the state after every step, exactly.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_scheduling::simulation::{self, Timeline};
use serde::Deserialize;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn all_timelines_equal_those_of_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle/queue");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        let timeline = Timeline::deserialize(&case["input"]).unwrap();
        let outcome = simulation::run(timeline).unwrap();
        assert_eq!(outcome.warnings, []);
        let answer = serde_json::to_value(outcome).unwrap();
        let name = path.file_name().unwrap().display().to_string();
        wrong
            .extend(difference(&case["expected"], &answer).map(|found| format!("{name}: {found}")));
        count += 1;
    }
    assert!(count >= 37, "only {count} cases found");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// The first step that differs, or what else does.
fn difference(expected: &Value, answer: &Value) -> Option<String> {
    let (wanted, actual) = (
        expected["steps"].as_array().unwrap(),
        answer["steps"].as_array().unwrap(),
    );
    let mut steps = wanted.iter().zip(actual).enumerate();
    let step = steps.find(|(_, (wanted, actual))| wanted != actual);
    let step = step.map(|(index, (wanted, actual))| {
        format!("step {index}:\n  {actual}\n  expected\n  {wanted}")
    });
    step.or_else(|| (wanted.len() != actual.len()).then(|| "steps are missing".to_owned()))
        .or_else(|| {
            let mut keys = ["pods", "incoming"].into_iter();
            let key = keys.find(|key| expected[key] != answer[key])?;
            Some(format!(
                "{key}:\n  {}\n  expected\n  {}",
                answer[key], expected[key]
            ))
        })
        .or_else(|| (expected != answer).then(|| "another key".to_owned()))
}
