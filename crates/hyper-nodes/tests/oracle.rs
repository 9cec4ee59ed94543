//! Recorded answers of Volcano's HyperNode controller at ed72c7c8; ours are equal.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_hyper_nodes::HyperNodeCase;
use serde_json::Value;
use std::fs;
use std::path::Path;

#[test]
fn every_step_is_answered_as_volcanos_hyper_node_controller_does() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
    let mut wrong = Vec::new();
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let case: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let read: HyperNodeCase = serde_json::from_value(case["input"].clone()).unwrap();
        let answer = serde_json::to_value(read.answer(true).unwrap()).unwrap();
        count += 1;
        if answer != case["expected"] {
            let wanted = &case["expected"];
            wrong.push(format!("{path:?}\n wanted {wanted}\n got    {answer}"));
        }
    }
    assert_eq!(count, 14);
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}
