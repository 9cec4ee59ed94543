//! The built program allocates devices as kube-scheduler 1.36.2 did (S7-130 to S7-199). Where that version has a fault that the
//! next one repairs, the repaired answer counts. Where its attempt ends in an error because of one node, only that node is lost.
//!
//! Among the cases are S7-135 and S7-195 (0042 to 0046), S7-151 (0189), S7-152 (0175, 0177, 0198), S7-193 (0109, 0114) and S7-196 (0070).

use crate::schedule_oracle::{explain, without_empty};
use crate::simulate::simulate;
use evictd_testkit::program::answer;
use serde_json::{Value, json};
use std::path::Path;

/// The keys in which an answer differs from a recorded one.
fn differences(actual: &Value, expected: &Value) -> Vec<String> {
    let keys = expected.as_object().unwrap().iter();
    let wrong = keys.filter(|(key, wanted)| without_empty(&actual[*key]) != without_empty(wanted));
    wrong
        .map(|(key, wanted)| format!("{key}: {}, expected {wanted}", actual[key]))
        .collect()
}

/// The recorded answer, and others that are as right.
fn answers(case: &Value) -> Vec<Value> {
    let mut expected = case["expected"].clone();
    if expected.get("error").is_some() {
        let fields = expected.as_object_mut().unwrap();
        fields.remove("error");
        let feasible = fields.remove("withoutError").unwrap_or(json!([]));
        fields.insert("feasible".to_owned(), feasible);
    }
    let others = case["alternatives"].as_array().into_iter().flatten();
    let others = others.chain(case.get("corrected"));
    [expected].into_iter().chain(others.cloned()).collect()
}

#[test]
fn devices_are_allocated_as_by_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduling/tests/oracle/devices");
    let (mut wrong, mut count) = (Vec::new(), 0);
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let input = &case["input"];
        let actual = if input.get("pending").is_some() {
            answer(&simulate(input, &["-o", "json"]))
        } else {
            explain(input)
        };
        let answers = answers(&case).into_iter();
        let found = answers.map(|expected| differences(&actual, &expected));
        let nearest = found.min_by_key(Vec::len).unwrap();
        if !nearest.is_empty() {
            wrong.push(format!("{}: {}", path.display(), nearest.join("\n  ")));
        }
        count += 1;
    }
    assert!(count >= 180, "only {count} cases found");
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
