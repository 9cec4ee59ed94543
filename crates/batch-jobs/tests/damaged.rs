//! Files that are damaged anywhere are answered or refused, and nothing panics.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch_jobs::reconcile::{JobCase, QueueCase};
use evictd_batch_objects::Compat;
use proptest::prelude::*;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

/// The inputs of all cases.
fn inputs() -> &'static [Value] {
    static INPUTS: OnceLock<Vec<Value>> = OnceLock::new();
    INPUTS.get_or_init(|| {
        let oracle = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle");
        let folders = ["job", "queue"].map(|folder| fs::read_dir(oracle.join(folder)).unwrap());
        let files = folders
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path());
        let cases = files.map(|path| fs::read_to_string(path).unwrap());
        let cases = cases.map(|text| serde_json::from_str::<Value>(&text).unwrap());
        cases.map(|mut case| case["input"].take()).collect()
    })
}

/// Goes down into a document, and puts something else there.
fn damage(document: &mut Value, way: &[prop::sample::Index], other: &Value) {
    let Some((first, rest)) = way.split_first() else {
        document.clone_from(other);
        return;
    };
    match document {
        Value::Object(map) if !map.is_empty() => {
            let key = map.keys().nth(first.index(map.len())).unwrap().clone();
            damage(&mut map[&key], rest, other);
        }
        Value::Array(list) if !list.is_empty() => {
            let index = first.index(list.len());
            damage(&mut list[index], rest, other);
        }
        leaf => leaf.clone_from(other),
    }
}

fn others() -> impl Strategy<Value = Value> {
    prop::sample::select(vec![
        Value::Null,
        json!(""),
        json!("nonsense"),
        json!(0),
        json!(-1),
        json!(i32::MAX),
        json!(i32::MIN),
        json!(u64::MAX),
        json!([]),
        json!({}),
        json!([null]),
        json!({"name": "x"}),
        json!("9999999999999999h"),
        json!("2026-01-01T00:00:00Z"),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_answered_or_refused(
        case in any::<prop::sample::Index>(),
        damages in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 1..8), others()), 1..4),
    ) {
        let mut input = inputs()[case.index(inputs().len())].clone();
        for (way, other) in &damages {
            damage(&mut input, way, other);
        }
        let now = "2026-01-01T01:00:00Z".parse().unwrap();
        if let Ok(job) = serde_json::from_value::<JobCase>(input.clone()) {
            for rules in [Compat::VOLCANO, Compat::EVICTD] {
                let _ = job.answer(rules, now);
            }
        }
        if let Ok(queue) = serde_json::from_value::<QueueCase>(input) {
            let _ = queue.answer();
        }
    }
}
